"""What a check knows of a log while it walks over its segments in order, and how it says what it
finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kbroker.log.inspection.epoch_check import EpochCheck
from kbroker.log.inspection.finding import Finding, Findings, Severity
from kbroker.log.inspection.log_directory_view import PartitionView
from kbroker.log.inspection.transaction_check import TransactionCheck

REBUILT = "the next start builds the file anew"
NOT_REBUILT = (
    "no start builds it anew: remove the file while no broker runs, and the segment's indexes are "
    "built again"
)
CUT = "the next start cuts the log here; what follows is lost"
NOT_CUT = (
    "a clean start does not look at it: readers fail here until the records are deleted, or the "
    "segment is copied from another replica"
)


@dataclass(slots=True)
class CheckTotals:
    """How much was looked at."""

    partitions: int = 0
    segments: int = 0
    files: int = 0
    size_bytes: int = 0
    batches: int = 0
    records: int = 0

    def add(self, other: CheckTotals) -> None:
        """Count another part in."""
        self.partitions += other.partitions
        self.segments += other.segments
        self.files += other.files
        self.size_bytes += other.size_bytes
        self.batches += other.batches
        self.records += other.records


def _nothing(_size_bytes: int = 0) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How to check."""

    is_deep: bool = False  # unpack batches and walk their records
    pause: Callable[[], None] = _nothing  # lets a running broker finish what it is writing
    progress: Callable[[int], None] = _nothing  # told the bytes read since the last time


@dataclass(slots=True)
class Gaps:
    """Offsets that are missing between batches."""

    count: int = 0
    offsets: int = 0
    first: tuple[int, int, str, int] | None = None  # first, last offset, path and position

    def add(self, first_offset: int, last_offset: int, path: str, position: int) -> None:
        """Note a gap in front of the batch at `position`; offsets inclusive."""
        self.count += 1
        self.offsets += last_offset - first_offset + 1
        if self.first is None:
            self.first = (first_offset, last_offset, path, position)


@dataclass(slots=True)
class LogWalk:
    """The state between two segments of one log."""

    directory: str
    view: PartitionView
    options: CheckOptions
    findings: Findings
    epochs: EpochCheck
    transactions: TransactionCheck = field(default_factory=TransactionCheck)
    gaps: Gaps = field(default_factory=Gaps)
    totals: CheckTotals = field(default_factory=CheckTotals)
    last_offset: int = -1  # of the last good batch
    end_offset: int = 0
    has_batches: bool = False
    was_compacted: bool = False

    def is_recovered(self, end_offset: int) -> bool:
        """True where the next start reads a segment that ends there, and mends it."""
        return not self.view.was_clean and (self.view.recovery_point or 0) <= end_offset

    def say(self, finding: Finding) -> None:
        """Note a finding."""
        self.findings.add(finding)

    def index_problem(self, path: str, code: str, what: str, *, is_recovered: bool) -> None:
        """A file that can be built anew from the segment is wrong."""
        severity = Severity.WARNING if is_recovered else Severity.ERROR
        advice = REBUILT if is_recovered else NOT_REBUILT
        self.say(Finding(severity, code, path, what, advice))
