"""Looks at the bytes of batches: their CRCs, and with a deep look their records. No batch is
checked against another, so segments of one log can be looked at in any order, and at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from kbroker.errors import KafkaError
from kbroker.inspection.batch_check import Problem, Unpacked, record_problems
from kbroker.inspection.data_directory import PartitionView
from kbroker.inspection.finding import Findings, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.log_walk import CUT, DEAD, NOT_CUT, SERVED_UNREAD, CheckOptions
from kbroker.inspection.segment_scan import ScannedBatch, SegmentScan
from kbroker.log.disk.file_system import FileSystem

_WITHOUT_ALARM = frozenset({FindingCode.BATCH_TIMESTAMP, FindingCode.BATCH_TOO_LARGE})


class _Damage(NamedTuple):
    problem: Problem
    position: int
    offset: int | None
    may_be_dead: bool


class ContentCheck:
    """The batches of one segment file. `next_base_offset` is that of the segment after it; None: it
    is the last.

    The next intact batch decides how bad a damaged one is: if that batch begins at the log start or
    before, nobody is served the damage.
    """

    def __init__(
        self,
        path: str,
        view: PartitionView,
        options: CheckOptions,
        findings: Findings,
        next_base_offset: int | None,
    ) -> None:
        self._path = path
        self._view = view
        self._options = options
        self._findings = findings
        self._next_base_offset = next_base_offset
        self._damages: list[_Damage] = []
        self.is_awaiting = False  # damage waits for the next intact batch

    def wrong_crc(self, batch: ScannedBatch) -> None:
        """Note a batch whose checksum does not match its bytes."""
        what = f"the CRC of a batch of {batch.header.size_bytes} bytes is wrong"
        self.damaged(Problem(FindingCode.BATCH_CRC, what), batch.position, batch.header.base_offset)

    def damaged(
        self, problem: Problem, position: int, offset: int | None, *, may_be_dead: bool = True
    ) -> None:
        """Note bytes that are not an intact batch."""
        self._damages.append(_Damage(problem, position, offset, may_be_dead))
        self.is_awaiting = True

    def sound(self, base_offset: int) -> None:
        """Report the damage before an intact batch, now that one has come."""
        self.is_awaiting = False
        is_cut = self._view.is_recovered(self._next_base_offset)
        is_cleaned = self._view.cleaner_offset is not None  # a cleaner reads all there is
        is_before_start = base_offset <= (self._view.log_start_offset or 0)
        is_dead = is_before_start and not is_cut and not is_cleaned
        for problem, position, offset, may_be_dead in self._damages:
            if is_dead and may_be_dead:
                severity, advice = Severity.INFO, DEAD
            elif problem.code is FindingCode.BATCH_RECORDS:  # the checksum is right
                severity, advice = Severity.ERROR, SERVED_UNREAD
            else:
                severity, advice = Severity.ERROR, CUT if is_cut else NOT_CUT
            self._say(severity, advice, problem, position, offset)
        self._damages.clear()

    def end(self) -> None:
        """Report the damage that the segment ends with."""
        if self.is_awaiting:
            self.sound(2**63 if self._next_base_offset is None else self._next_base_offset)

    def look(self, scan: SegmentScan, batch: ScannedBatch) -> None:
        """Unpack an intact batch and walk its records, before the scan goes on."""
        header = batch.header
        unpacked = Unpacked()
        try:
            problems = list(record_problems(header, scan.read(batch), unpacked))
        except KafkaError as error:
            problems = [Problem(FindingCode.BATCH_TOO_LARGE, f"was not checked: {error.message}")]
        for problem in problems:
            if problem.code in _WITHOUT_ALARM:
                advice = "readers are still served it"
                place = (batch.position, header.base_offset)
                self._say(Severity.WARNING, advice, problem, *place)
            else:
                self.damaged(problem, batch.position, header.base_offset)
        if self._options.watcher is not None:
            self._options.watcher.records(header, unpacked.size_bytes, unpacked.timestamps)

    def _say(
        self, severity: Severity, advice: str, problem: Problem, position: int, offset: int | None
    ) -> None:
        finding = problem.code.finding(self._path, problem.what, advice, severity=severity)
        self._findings.add(replace(finding, position=position, offset=offset))


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A segment file, and the base offset of the next one; None: it is the last."""

    path: str
    next_base_offset: int | None


def check_content(
    file_system: FileSystem,
    segment: SegmentPlace,
    view: PartitionView,
    options: CheckOptions,
    findings: Findings,
) -> frozenset[int]:
    """Look at the bytes of one segment. Returns the positions of batches with wrong CRCs for the
    check of the whole log, which then reads headers alone. Raises StorageError.
    """
    broken = []
    check = ContentCheck(segment.path, view, options, findings, segment.next_base_offset)
    scan = SegmentScan(file_system, segment.path, checks_crc=True)
    for batch in scan.batches():
        if not batch.is_intact:
            check.wrong_crc(batch)
            broken.append(batch.position)
        else:
            if check.is_awaiting:
                check.sound(batch.header.base_offset)
            if options.is_deep:
                check.look(scan, batch)
        options.progress(batch.header.size_bytes)
    check.end()
    return frozenset(broken)
