"""Parses columns in a schema of Spark's DDL; whether a type exists is for Spark to say."""

from __future__ import annotations

import re

_COLUMN = re.compile(r"(?:`([^`]+)`|(\w+))\s*:?\s+(\S.*)", re.DOTALL)


def ddl_columns(text: str) -> dict[str, str]:
    """Types by name, in order; raises ValueError with what is wrong.

    >>> ddl_columns("id BIGINT NOT NULL, price DECIMAL(10, 2), tags MAP<STRING, INT>")
    {'id': 'BIGINT NOT NULL', 'price': 'DECIMAL(10, 2)', 'tags': 'MAP<STRING, INT>'}
    """
    found: dict[str, str] = {}
    for part in _parts(text):
        column = _COLUMN.fullmatch(part.strip())
        if column is None:
            raise ValueError(f"{part.strip()!r} is not a column: write NAME TYPE, with commas")
        name = column[1] or column[2]
        if name in found:
            raise ValueError(f"column {name} is there twice")
        found[name] = " ".join(column[3].split())
    return found


def _parts(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign in "<(") - (sign in ">)")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts
