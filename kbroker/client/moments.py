"""Moments as people write them: a time ago (`-1h`), a day (`yesterday`), or a date
(`2026-11-21T10:00:00`), in UTC if it names no zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

MOMENTS = (
    "a time ago such as -30s, -15m, -1h, -2d, now, today or yesterday (from 0:00 UTC on), "
    "a date such as 2026-11-21T10:00:00"
)
"""The forms that `timestamp_ms` reads, for the sentence about any other text."""

_AGO = re.compile(r"-(\d+)(s|m|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DAY_MS = _UNIT_MS["d"]
_DAYS_AGO = {"today": 0, "yesterday": 1}


def is_relative(text: str) -> bool:
    """Say whether a text names a moment that moves with the clock."""
    return text == "now" or text in _DAYS_AGO or milliseconds_ago(text) is not None


def milliseconds_ago(text: str) -> int | None:
    """Return how long ago `-30s`, `-15m`, `-1h` or `-2d` was; None for any other text."""
    match = _AGO.fullmatch(text)
    return int(match[1]) * _UNIT_MS[match[2]] if match else None


def timestamp_ms(text: str, now_ms: int) -> int | None:
    """Return the Unix ms of a time ago, of the beginning of a day, or of a date; None for any other
    text.
    """
    ago_ms = 0 if text == "now" else milliseconds_ago(text)
    if ago_ms is not None:
        return now_ms - ago_ms
    if text in _DAYS_AGO:
        return now_ms - now_ms % _DAY_MS - _DAYS_AGO[text] * _DAY_MS
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
