"""Types of options that jobs have: durations, lists of names, and pairs `KEY=VALUE`."""

from __future__ import annotations

import re
from typing import Any

import click

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Duration(click.ParamType):
    """Seconds, from `500ms`, `30s`, `5m`, `1h` or `2d`; more than 0."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """A number that was converted before passes."""
        if isinstance(value, float):
            return value
        match = _DURATION.fullmatch(str(value).strip())
        if match is None or float(match[1]) == 0:
            self.fail(f"{value!r} is no duration such as 500ms, 30s, 5m or 1h", param, ctx)
        return float(match[1]) * _UNIT_S[match[2]]


class Names(click.ParamType):
    """A tuple of names, from `a,b`."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        """A tuple that was converted before passes; a list comes from a configuration file."""
        parts = value.split(",") if isinstance(value, str) else value
        return tuple(part for part in (str(part).strip() for part in parts) if part)


class Pair(click.ParamType):
    """A tuple of key and value, from `KEY=VALUE`."""

    name = "key=value"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        """The value may hold further signs `=`."""
        if isinstance(value, tuple):
            return (str(value[0]), str(value[1]))
        key, sign, text = str(value).partition("=")
        if not sign or not key.strip():
            self.fail(f"{value!r} is no KEY=VALUE", param, ctx)
        return (key.strip(), text)


DURATION, NAMES, PAIR = Duration(), Names(), Pair()
