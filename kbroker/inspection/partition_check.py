"""Checks one partition directory: its segments in order, what lies beside them, and what the data
directory says of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from errno import ENOENT
from uuid import UUID

from kbroker.inspection.data_directory import PartitionDirectory
from kbroker.inspection.disk_advice import OFFLINE, advice_on
from kbroker.inspection.epoch_check import EpochCheck
from kbroker.inspection.finding import Findings, Severity
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.log_walk import CUT, CheckOptions, CheckTotals, Gaps, LogWalk
from kbroker.inspection.partition_files import PartitionFiles, sort_files
from kbroker.inspection.segment_check import SegmentCheck
from kbroker.inspection.sequence_check import SequenceCheck
from kbroker.inspection.timestamp_check import TimestampCheck
from kbroker.log.disk.checkpoint import (
    CheckpointError,
    EpochEntry,
    read_leader_epochs,
    read_partition_metadata,
)
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOG_SUFFIX,
    PARTITION_METADATA_FILE,
    PRODUCER_SNAPSHOT_SUFFIX,
    file_name,
)
from kbroker.log.producers.producer_snapshot import SnapshotError, decode_snapshot
from kbroker.model import GROUP_METADATA_TOPIC

_GOING = "a running broker removes what retention and the cleaner release"
_NOT_OPENED = "the partition is not opened; remove the file, and the topic id is written again"
_END_IS_LOST = "its last records are lost; the next start goes on at the recovery point"
_REPLAYED = "it is deleted at the next start and the log is replayed instead"


@dataclass(frozen=True, slots=True)
class CheckedLog:
    """The results of a check of a partition directory. Offsets are None if there is no segment."""

    totals: CheckTotals
    topic_id: UUID | None = None
    start_offset: int | None = None  # of the first segment, or what DeleteRecords left
    end_offset: int | None = None
    is_compacted: bool = False


class PartitionCheck:
    """One partition directory; used once."""

    def __init__(
        self,
        file_system: FileSystem,
        partition: PartitionDirectory,
        options: CheckOptions,
        findings: Findings,
    ) -> None:
        self._file_system = file_system
        self._partition = partition
        self._directory = partition.path
        self._view = partition.view
        self._options = options
        self._findings = findings
        self._topic_id: UUID | None = None

    def run(self) -> CheckedLog:
        """Check all files. Raises StorageError if the directory cannot be read."""
        files = sort_files(self._file_system.list(self._directory))
        self._names(files)
        self._metadata()
        topic = self._partition.topic_partition.topic
        walk = LogWalk(
            self._directory,
            self._view,
            self._options,
            self._findings,
            EpochCheck(self._epochs(files), self._view.log_start_offset or 0),
            TimestampCheck(self._options.now_ms),
            SequenceCheck(is_of_coordinator=topic == GROUP_METADATA_TOPIC),
        )
        walk.totals.partitions = 1
        walk.totals.files = len(files.names & {LEADER_EPOCH_CHECKPOINT_FILE})
        self._epoch_problems(walk)
        if files.has_segments:
            walk.end_offset = files.base_offsets[0]
            walk.transactions.is_whole = files.base_offsets[0] == 0 and not self._is_cleaned()
        self._segments(walk, files)
        self._gaps(walk)
        self._snapshots(walk, files)
        self._checkpoints(walk, files)
        for problem in walk.epochs.end(walk.end_offset):
            self._epoch_finding(walk, problem.code, problem.what)
        has_segments = files.has_segments
        return CheckedLog(
            walk.totals,
            self._topic_id,
            max(files.base_offsets[0], self._view.log_start_offset or 0) if has_segments else None,
            walk.end_offset if has_segments else None,
            is_compacted=self._is_cleaned() or walk.was_compacted,
        )

    def _is_cleaned(self) -> bool:
        return self._view.cleaner_offset is not None

    def _segments(self, walk: LogWalk, files: PartitionFiles) -> None:
        following = (*files.base_offsets, None)[1:]
        for base_offset, next_base_offset in zip(files.base_offsets, following, strict=True):
            check = SegmentCheck(self._file_system, walk, base_offset, next_base_offset)
            try:
                walk.totals.files += 1
                check.run()
            except StorageError as error:
                if error.errno == ENOENT:
                    self._gone(error.path.rpartition("/")[2])
                    walk.transactions.is_whole = False
                    continue
                self._say(
                    FindingCode.FILE_UNREADABLE,
                    error.path.rpartition("/")[2],
                    f"cannot be read: {error}",
                    advice_on(error, OFFLINE),
                )

    def _gone(self, name: str) -> None:
        if not self._options.is_at_work:
            self._say(FindingCode.GONE, name, "was deleted while it was checked", _GOING)

    def _names(self, files: PartitionFiles) -> None:
        if not self._options.is_at_work:
            self._passing_names(files)
        for name in files.orphans:
            what = "is an index without its segment"
            self._say(FindingCode.INDEX_ORPHAN, name, what, "the next start removes it")
        for name in files.foreign:
            what = "is not a file of a log"
            self._say(FindingCode.FOREIGN, name, what, "it is left alone")

    def _passing_names(self, files: PartitionFiles) -> None:
        """Report files that are about to come or go: a running broker always has some."""
        for name in files.leftovers:
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX)):
                self._say(
                    FindingCode.LEFTOVER, name,
                    "is left over from a deletion or a cleaning",
                    "it is removed at the next start, or after its delay",
                )  # fmt: skip
            else:
                is_at_work = self._options.waits and not self._view.was_clean
                self._say(
                    FindingCode.LEFTOVER_SWAP, name,
                    "is a cleaned segment that is about to replace others",
                    "a running broker is about to replace them, or the next start does",
                    Severity.INFO if is_at_work else None,
                )  # fmt: skip
        for name in files.temporary:
            what = "is left over from an interrupted write"
            self._say(FindingCode.LEFTOVER, name, what, "it may be removed")

    def _metadata(self) -> None:
        try:
            self._topic_id = read_partition_metadata(self._file_system, self._directory)
        except (CheckpointError, StorageError) as error:
            self._say(
                FindingCode.PARTITION_METADATA,
                PARTITION_METADATA_FILE,
                f"cannot be read: {error}",
                advice_on(error, _NOT_OPENED),
            )

    def _epochs(self, files: PartitionFiles) -> list[EpochEntry] | None:
        if LEADER_EPOCH_CHECKPOINT_FILE not in files.names:
            return None
        try:
            return read_leader_epochs(self._file_system, self._directory)
        except (CheckpointError, StorageError) as error:
            self._say(
                FindingCode.EPOCHS_UNREADABLE,
                LEADER_EPOCH_CHECKPOINT_FILE,
                f"cannot be read: {error}",
                advice_on(
                    error, "it counts as empty; a start that recovers the log writes it again"
                ),
            )
            return None

    def _epoch_problems(self, walk: LogWalk) -> None:
        for problem in walk.epochs.file():
            self._epoch_finding(walk, problem.code, problem.what)

    def _epoch_finding(self, walk: LogWalk, code: FindingCode, what: str) -> None:
        path = f"{walk.directory}/{LEADER_EPOCH_CHECKPOINT_FILE}"
        advice = "the next start drops the impossible entries"
        walk.say(code.finding(path, what, advice))

    def _gaps(self, walk: LogWalk) -> None:
        lost = "unless the topic was compacted they are lost: copy the log from a replica"
        if self._is_cleaned() or walk.was_compacted:
            self._gap(walk.gaps, Severity.INFO, "a compacted log is like that")
        else:
            self._gap(walk.gaps, Severity.ERROR, lost)
        advice = f"the cleaner says that it came to {self._view.cleaner_offset}: unless it was "
        advice += "stopped at work, or the log was copied from another replica, they are lost"
        self._gap(walk.dirty_gaps, Severity.WARNING, advice)
        self._gap(walk.cut_gaps, Severity.ERROR, CUT)

    def _gap(self, gaps: Gaps, severity: Severity, advice: str) -> None:
        """Report missing offsets; if they begin and end with segments, a segment is gone."""
        if gaps.first is None:
            return
        first_offset, last_offset, path, position = gaps.first
        places = "1 place" if gaps.count == 1 else f"{gaps.count} places, the first time"
        what = f"{gaps.offsets} offsets are missing in {places}: "
        what += f"{first_offset} to {last_offset}"
        code = FindingCode.GAP
        if position == 0 and severity > Severity.INFO:
            code = FindingCode.SEGMENT_MISSING
            what += f": a segment {file_name(first_offset, LOG_SUFFIX)} is not there"
        self._findings.add(
            code.finding(
                path, what, advice, position=position, offset=first_offset, severity=severity
            )
        )

    def _snapshots(self, walk: LogWalk, files: PartitionFiles) -> None:
        for offset in files.snapshot_offsets:
            name = file_name(offset, PRODUCER_SNAPSHOT_SUFFIX)
            walk.totals.files += 1
            try:
                entries = decode_snapshot(self._file_system.read_bytes(f"{self._directory}/{name}"))
            except (SnapshotError, StorageError) as error:
                if isinstance(error, StorageError) and error.errno == ENOENT:
                    self._gone(name)
                    continue
                what, advice = f"cannot be used: {error}", advice_on(error, _REPLAYED)
                self._say(FindingCode.SNAPSHOT, name, what, advice)
                continue
            if offset > walk.end_offset:
                what = f"names offset {offset}, beyond the log's end {walk.end_offset}"
                self._say(FindingCode.SNAPSHOT_BEYOND, name, what, _REPLAYED)
            elif any(batch.last_offset >= offset for e in entries for batch in e.batches):
                what = "holds a batch that came after it"
                self._say(FindingCode.SNAPSHOT, name, what, _REPLAYED)
        wanted = {
            base_offset
            for base_offset in files.base_offsets[1:]
            if base_offset > (self._view.log_start_offset or 0)
        }
        for offset in sorted(wanted - set(files.snapshot_offsets)):
            self._say(
                FindingCode.SNAPSHOT_MISSING,
                file_name(offset, PRODUCER_SNAPSHOT_SUFFIX),
                "is missing, as every segment but the first has one",
                "a start that needs it replays the log and writes it again",
            )

    def _checkpoints(self, walk: LogWalk, files: PartitionFiles) -> None:
        view, end = self._view, walk.end_offset
        beyond = f"is beyond the end of the log, {end}"
        if view.recovery_point is not None and view.recovery_point > end:
            what = f"the recovery point {view.recovery_point} {beyond}"
            severity, advice = Severity.WARNING, "it is set to the end"
            if view.was_clean and view.recovery_point in files.snapshot_offsets:
                severity, advice = Severity.ERROR, _END_IS_LOST
            self._say(FindingCode.RECOVERY_POINT, "", what, advice, severity)
        if view.high_watermark is not None and view.high_watermark > end:
            what = f"the high watermark {view.high_watermark} {beyond}"
            advice = "committed records may be missing; it is set to the end"
            self._say(FindingCode.HIGH_WATERMARK, "", what, advice)
        if view.cleaner_offset is not None and view.cleaner_offset > end:
            what = f"the cleaner's offset {view.cleaner_offset} {beyond}"
            self._say(
                FindingCode.CLEANER_OFFSET,
                "",
                what,
                "the cleaner starts from the beginning",
            )
        start = view.log_start_offset
        if start is not None and start > end:
            what = f"the log start offset {start} {beyond}"
            advice = f"the next start drops every segment and begins an empty log at {start}"
            self._say(FindingCode.LOG_START_OFFSET, "", what, advice)
        if not files.has_segments and files.names:
            what = "the directory holds no segment"
            self._say(FindingCode.NO_SEGMENT, "", what, "a start creates an empty one")

    def _say(
        self,
        code: FindingCode,
        name: str,
        what: str,
        advice: str,
        severity: Severity | None = None,
    ) -> None:
        path = f"{self._directory}/{name}" if name else self._directory
        self._findings.add(code.finding(path, what, advice, severity=severity))
