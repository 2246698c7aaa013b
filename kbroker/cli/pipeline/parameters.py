"""Types of options that jobs have: durations, lists of names, directories, pairs `KEY=VALUE`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(text: str) -> float:
    """Seconds of `500ms`, `30s`, `5m`, `1h` or `2d`; more than 0."""
    match = _DURATION.fullmatch(str(text).strip())
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a duration such as 500ms, 30s, 5m or 1h")
    return float(match[1]) * _UNIT_S[match[2]]


def names(text: str | Sequence[str]) -> tuple[str, ...]:
    """The names in `a,b`; a configuration file may have a list."""
    parts = text.split(",") if isinstance(text, str) else [str(part) for part in text]
    return tuple(filter(None, map(str.strip, parts)))


def directory(text: str) -> str:
    """The path of a directory, there or not; no address of a store that is not a disk."""
    if "://" in str(text):
        raise click.BadParameter(
            f"'{text}' is an address: give a directory of a disk, own or mounted"
        )
    return str(text)


def pair(text: str) -> tuple[str, str]:
    """Key and value of `KEY=VALUE`; the value may hold further signs `=`."""
    key, sign, value = str(text).partition("=")
    if not sign or not key.strip():
        raise click.BadParameter(f"'{text}' is not KEY=VALUE")
    return (key.strip(), value)
