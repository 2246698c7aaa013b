"""Looks at the bytes of batches: their CRCs, and with a deep look their records. No batch is held
against another, so segments of one log can be looked at in any order, and at the same time.
"""

from __future__ import annotations

from collections.abc import Callable

from kbroker.errors import KafkaError
from kbroker.log.file_system import FileSystem
from kbroker.log.inspection.batch_check import Problem, Unpacked, record_problems
from kbroker.log.inspection.finding import Finding, Findings, Severity
from kbroker.log.inspection.log_directory_view import PartitionView
from kbroker.log.inspection.log_walk import CUT, NOT_CUT, CheckOptions
from kbroker.log.inspection.segment_scan import ScannedBatch, SegmentScan

_WITHOUT_ALARM = frozenset({"batch-timestamp", "batch-too-large"})


class ContentCheck:
    """The batches of one segment file; `is_cut` tells whether the next start cuts the log there."""

    def __init__(
        self, path: str, options: CheckOptions, findings: Findings, is_cut: Callable[[], bool]
    ) -> None:
        self._path = path
        self._options = options
        self._findings = findings
        self._is_cut = is_cut

    def wrong_crc(self, batch: ScannedBatch) -> None:
        """A batch whose checksum is not that of its bytes."""
        what = f"the CRC of a batch of {batch.header.size_bytes} bytes is wrong"
        self._say(Problem("batch-crc", what), batch)

    def look(self, scan: SegmentScan, batch: ScannedBatch) -> None:
        """Unpack a sound batch and walk its records; to be called before the scan goes on."""
        header = batch.header
        unpacked = Unpacked()
        try:
            problems = list(record_problems(header, scan.read(batch), unpacked))
        except KafkaError as error:
            problems = [Problem("batch-too-large", f"was not looked into: {error.message}")]
        for problem in problems:
            self._say(problem, batch)
        if self._options.watcher is not None:
            self._options.watcher.records(header, unpacked.size_bytes, unpacked.timestamps)

    def _say(self, problem: Problem, batch: ScannedBatch) -> None:
        severity, advice = Severity.ERROR, CUT if self._is_cut() else NOT_CUT
        if problem.code in _WITHOUT_ALARM:
            severity, advice = Severity.WARNING, "readers are served all the same"
        offset = batch.header.base_offset
        self._findings.add(
            Finding(
                severity, problem.code, self._path, problem.what, advice, batch.position, offset
            )
        )


def check_content(
    file_system: FileSystem,
    path: str,
    view: PartitionView,
    options: CheckOptions,
    findings: Findings,
) -> frozenset[int]:
    """Look at the bytes of one segment; where the batches with wrong CRCs are, for the check of the
    whole log, which then reads headers alone. Raises StorageError.
    """
    broken = []
    at = 0

    def is_cut() -> bool:
        return not view.was_clean and (view.recovery_point or 0) <= at

    check = ContentCheck(path, options, findings, is_cut)
    scan = SegmentScan(file_system, path, checks_crc=True)
    for batch in scan.batches():
        at = batch.header.base_offset
        if not batch.is_intact:
            check.wrong_crc(batch)
            broken.append(batch.position)
        elif options.is_deep:
            check.look(scan, batch)
        options.progress(batch.header.size_bytes)
    return frozenset(broken)
