"""The state of a check that walks the segments of a log in order, and how it reports findings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from kbroker.inspection.data_directory import PartitionView
from kbroker.inspection.epoch_check import EpochCheck
from kbroker.inspection.finding import Finding, Findings, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.sequence_check import SequenceCheck
from kbroker.inspection.timestamp_check import TimestampCheck
from kbroker.inspection.transaction_check import TransactionCheck
from kbroker.log.disk.format import offset_of
from kbroker.record.record_batch import BatchHeader

REBUILT = "the next start rebuilds the file"
NOT_REBUILT = (
    "a start does not rebuild it: remove the file while no broker runs, and the next start "
    "rebuilds the segment's indexes"
)
CUT = (
    "the next start cuts the log here, unless a broker that runs now stops cleanly before; what "
    "follows is lost"
)
NOT_CUT = (
    "a clean start does not look at it: readers fail here until the records are deleted, or the "
    "segment is copied from another replica"
)
SERVED_UNREAD = (
    "no start cuts it, it is served as it is, and most consumers stop there: `kbroker consume` "
    "names such batches and prints what can be read"
)
DEAD = "it is before the log start: no reader is served it, and it is deleted with its segment"


_T = TypeVar("_T")
_ATTEMPTS = 3  # at what a running broker may be changing


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
        """Add the counts of another part."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def _nothing(_size_bytes: int = 0) -> None:
    pass


class BatchWatcher(Protocol):
    """Watches a check walk over batches, so that one look at a file serves those who count, too."""

    def begin(self) -> None:
        """A look at a partition begins: the first, or one that replaces it."""

    def batch(self, header: BatchHeader) -> None: ...

    def records(self, header: BatchHeader, size_bytes: int, timestamps: list[int]) -> None:
        """Follows `batch` in a deep look: size of the unpacked records, and their times in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """How deep a check goes, and who watches it."""

    is_deep: bool = False  # unpack batches and walk their records
    now_ms: int | None = None  # None: no timestamp is in the future
    watcher: BatchWatcher | None = None
    # Positions of broken batches by path, if CRCs and records were looked at before; None: look.
    broken: Mapping[str, frozenset[int]] | None = None
    is_at_work: bool = False  # a broker is known to run: what comes and goes is not reported
    pause: Callable[[], None] = _nothing  # lets a running broker finish what it is writing
    progress: Callable[[int], None] = _nothing  # takes the bytes read since the last call

    @property
    def waits(self) -> bool:
        """True if a broker may be running."""
        return self.pause is not _nothing


def check_until_settled(
    attempt: Callable[[Findings], _T], pause: Callable[[], None] | None, findings: Findings
) -> _T:
    """Check again if the findings may come from a running broker at work: files that are cleaned,
    deleted or rolled, epochs that begin. Findings that stay are real. Without `pause` nobody
    writes.
    """
    number = 0
    while True:
        number += 1
        found = Findings()
        result = attempt(found)
        is_calm = found.worst is None or found.worst is Severity.INFO
        if is_calm or pause is None or number == _ATTEMPTS:
            findings.take(found)
            return result
        pause()


class OffsetGap(NamedTuple):
    """Offsets, both inclusive, that are missing in front of the batch at `position` of a file."""

    first_offset: int
    last_offset: int
    path: str
    position: int


@dataclass(slots=True)
class Gaps:
    """Offsets that are missing between batches."""

    count: int = 0
    offsets: int = 0
    first: OffsetGap | None = None

    def add(self, gap: OffsetGap) -> None:
        """Keep the first gap, and count all."""
        self.count += 1
        self.offsets += gap.last_offset - gap.first_offset + 1
        if self.first is None:
            self.first = gap


@dataclass(slots=True)
class LogWalk:
    """The state between two segments of one log."""

    directory: str
    view: PartitionView
    options: CheckOptions
    findings: Findings
    epochs: EpochCheck
    timestamps: TimestampCheck
    sequences: SequenceCheck
    transactions: TransactionCheck = field(default_factory=TransactionCheck)
    gaps: Gaps = field(default_factory=Gaps)  # where a cleaner may have been
    dirty_gaps: Gaps = field(default_factory=Gaps)  # where no cleaner says that it was
    cut_gaps: Gaps = field(default_factory=Gaps)  # where the next start takes them for damage
    totals: CheckTotals = field(default_factory=CheckTotals)
    last_offset: int = -1  # of the last good batch
    end_offset: int = 0
    has_batches: bool = False
    was_compacted: bool = False

    def gap(self, gap: OffsetGap) -> None:
        """Note missing offsets, of whose records nothing is known."""
        self.sequences.disturbed(gap.last_offset + 1)
        if gap.last_offset < (self.view.log_start_offset or 0):
            return  # nobody is served what was there
        cleaned = self.view.cleaner_offset
        base_offset = offset_of(gap.path.rpartition("/")[2])
        is_between = gap.position == 0 and base_offset != gap.first_offset
        if is_between and base_offset is not None and self.view.is_cut_before(base_offset):
            self.cut_gaps.add(gap)
            return
        is_dirty = cleaned is not None and gap.first_offset >= cleaned and self.view.was_clean
        (self.dirty_gaps if is_dirty else self.gaps).add(gap)

    def say(self, finding: Finding) -> None:
        self.findings.add(finding)

    def index_problem(self, path: str, code: FindingCode, what: str, *, is_recovered: bool) -> None:
        """Report a wrong file that can be rebuilt from its segment."""
        severity = Severity.WARNING if is_recovered else None
        advice = REBUILT if is_recovered else NOT_REBUILT
        self.say(code.finding(path, what, advice, severity=severity))
