"""One request in a line for a person.

Law: what clients call themselves, their groups and their topics is shown inert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kbroker.cli.shown.output import plain

_WIDTHS: Final = (12, 9, 22, 20, 21, 17)
_CLOSED: Final = "connection closed"
_NO_ANSWER: Final = "-"


def _aligned(cells: Sequence[str]) -> str:
    time, took, *others, asked = cells
    padded = (cell.ljust(width) for cell, width in zip(others, _WIDTHS[2:], strict=True))
    texts = (time.ljust(_WIDTHS[0]), took.rjust(_WIDTHS[1]), *padded, asked)
    return "  ".join(texts).rstrip()


HEAD: Final = _aligned(("TIME", "MS", "REQUEST", "CLIENT", "ADDRESS", "BYTES", "ASKED FOR"))


def line_of(value: Mapping[str, Any]) -> str:
    """Return the line of one entry, as JSON has it. Raises KeyError, TypeError, ValueError or
    AttributeError for a value that is none.
    """
    at = datetime.fromtimestamp(value["at_ms"] / 1000)
    answer_bytes = value["answer_bytes"]
    answered = _NO_ANSWER if answer_bytes is None else f"{answer_bytes:,}"
    cells = (
        at.strftime("%H:%M:%S.%f")[:-3],
        f"{value['took_ms']:,.1f}",
        f"{value['api']} v{value['version']}",
        value["client_id"] or _NO_ANSWER,
        value["address"],
        f"{value['request_bytes']:,} > {answered}",
        "; ".join(filter(None, (_asked(value), _codes(value)))),
    )
    return plain(_aligned(cells), keeps="")


def _asked(value: Mapping[str, Any]) -> str:
    places, count = value.get("partitions", ()), value.get("partition_count", 0)
    if not places:
        places, count = value.get("topics", ()), value.get("topic_count", 0)
    kinds = (
        _listed("group ", value.get("groups", ())),
        _listed("transactional id ", value.get("transactional_ids", ())),
        _listed("", places, count),
    )
    return ", ".join(filter(None, kinds))


def _codes(value: Mapping[str, Any]) -> str:
    codes = value.get("codes", ())
    texts = [
        f"{each['code']} ({each['about']})" if each.get("about") else each["code"] for each in codes
    ]
    if value.get("closed"):
        texts.append(_CLOSED)
    return _listed("", texts, value.get("code_count", 0))


def _listed(kind: str, names: Sequence[str], count: int = 0) -> str:
    if not names:
        return ""
    more = f" and {count - len(names):,} more" if count > len(names) else ""
    return kind + ", ".join(names) + more
