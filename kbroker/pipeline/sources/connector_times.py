"""Corrects the times of Spark's Kafka connector to what producers wrote.

On its way to a TIMESTAMP the connector takes times before 15 October 1582 for dates of the Julian
calendar, and keeps year, month and day: they come two days late around the year 1, ten days early
in 1582. Here the day is looked up again in the calendar it was taken for. Producers write such a
time for "no date": the year 1 is .NET's minimum. Only 29 February of a year that is a leap year in
the Julian calendar alone, such as 1500, cannot be told from the next day.
"""

from __future__ import annotations

from typing import Any, Final

_DAY_US: Final = 86_400_000_000
_SWITCH_US: Final = -141_427 * _DAY_US  # 15 October 1582 in the Gregorian calendar
_UNIX_JULIAN_DAY: Final = 2_440_588  # the day number of 1 January 1970
_DAYS: Final = "floor(unix_seconds(timestamp) / 86400)"
_DATE: Final = f"date_from_unix_date(cast({_DAYS} AS int))"
_YEARS: Final = f"(year({_DATE}) + 4800 - floor((14 - month({_DATE})) / 12))"  # from March on
_MONTHS: Final = f"(month({_DATE}) + 12 * floor((14 - month({_DATE})) / 12) - 3)"
_JULIAN: Final = (
    f"(day({_DATE}) + floor((153 * {_MONTHS} + 2) / 5) + 365 * {_YEARS} + floor({_YEARS} / 4) "
    f"- 32083 - {_UNIX_JULIAN_DAY})"
)
TIMESTAMP: Final = (
    f"CASE WHEN timestamp < timestamp_micros({_SWITCH_US}) "
    f"THEN timestamp_micros(unix_micros(timestamp) + ({_JULIAN} - {_DAYS}) * {_DAY_US}) "
    "ELSE timestamp END AS timestamp"
)


def with_written_times(frame: Any) -> Any:
    """Return the connector's frame with its column `timestamp` corrected, and no other changed."""
    return frame.selectExpr(
        *(TIMESTAMP if name == "timestamp" else f"`{name}`" for name in frame.columns)
    )
