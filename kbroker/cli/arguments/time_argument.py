"""Durations on the command line: `500ms`, `15m`."""

from __future__ import annotations

import re

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


def duration(text: str) -> float:
    """Return the seconds of `500ms`, `30s`, `5m`, `1h` or `2d`; more than 0."""
    match = _DURATION.fullmatch(str(text).strip())
    if match is None or float(match[1]) == 0:
        raise click.BadParameter(f"'{text}' is not a duration such as 500ms, 30s, 5m or 1h")
    return float(match[1]) * _UNIT_S[match[2]]
