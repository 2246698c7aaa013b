"""Checks that timestamps of batches are possible: not negative, not in the future, not far behind
those before them. Headers in, problems out.

Law: a time before an earlier batch's is only a note, because a client may send old times on
purpose. Only headers are read. Markers are left out, because brokers stamp them and clients stamp
records.
"""

from __future__ import annotations

from kbroker.inspection.batch_check import Problem
from kbroker.inspection.finding_codes import FindingCode
from kbroker.model import NO_TIMESTAMP
from kbroker.record.record_batch import (
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
)

AHEAD_MS = 3_600_000  # the default of message.timestamp.after.max.ms
BEHIND_MS = 86_400_000
_NEVER = 2**63
_BASE_IS_OTHER = TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT  # base timestamp is not that of a record


class TimestampCheck:
    """Checks one log, whose batches come in order. Without `now_ms` nothing is in the future."""

    def __init__(self, now_ms: int | None = None) -> None:
        self._latest = _NEVER if now_ms is None else now_ms + AHEAD_MS
        self._newest = NO_TIMESTAMP
        self._oldest_fine = NO_TIMESTAMP

    def is_plain(self, header: BatchHeader) -> bool:
        """True if `batch` has nothing to report and nothing to note."""
        return (
            self._oldest_fine <= header.max_timestamp <= self._newest
            and NO_TIMESTAMP <= header.base_timestamp <= header.max_timestamp
        )

    def batch(self, header: BatchHeader) -> Problem | None:
        """Return the first problem of the times of a batch."""
        newest, base = header.max_timestamp, header.base_timestamp
        if newest < NO_TIMESTAMP or base < NO_TIMESTAMP:
            return Problem(FindingCode.TIMESTAMP_NEGATIVE, f"timestamps {base} to {newest}")
        if newest > self._latest:
            return Problem(
                FindingCode.TIMESTAMP_FUTURE,
                f"timestamp {newest} is {_span(newest - self._latest + AHEAD_MS)} in the future",
            )
        if base > newest and not header.attributes & _BASE_IS_OTHER and header.record_count:
            return Problem(
                FindingCode.TIMESTAMP_ORDER,
                f"the first timestamp, {base}, is later than the newest, {newest}",
            )
        if newest > self._newest:
            self._newest = newest
            self._oldest_fine = max(NO_TIMESTAMP, newest - BEHIND_MS)
        elif NO_TIMESTAMP < newest < self._oldest_fine:
            return Problem(
                FindingCode.TIMESTAMP_BEHIND,
                f"timestamp {newest} is {_span(self._newest - newest)} before an earlier batch's",
            )
        return None


def _span(span_ms: int) -> str:
    days, rest = divmod(span_ms, 86_400_000)
    return f"{days} days" if days > 1 else f"{days * 24 + rest // 3_600_000} hours"
