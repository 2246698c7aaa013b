"""Checks one segment: every batch with its CRC, and in the same walk the indexes beside it."""

from __future__ import annotations

from collections.abc import Iterator
from errno import ENOENT

from kbroker.errors import KafkaError
from kbroker.inspection.batch_check import (
    Problem,
    header_problems,
    is_plain,
)
from kbroker.inspection.content_check import ContentCheck
from kbroker.inspection.finding_codes import FindingCode
from kbroker.inspection.index_check import OffsetIndexCheck, TimeIndexCheck
from kbroker.inspection.log_walk import REBUILT, LogWalk, OffsetGap
from kbroker.inspection.segment_audit import DamagedPlace, sound_after
from kbroker.inspection.segment_scan import (
    ScannedBatch,
    SegmentScan,
    Tail,
    TailKind,
    tells_first_offset,
)
from kbroker.log.disk.file_system import FileSystem, StorageError
from kbroker.log.disk.format import (
    LEADER_EPOCH_CHECKPOINT_FILE,
    LOG_SUFFIX,
    OFFSET_INDEX_ENTRY,
    OFFSET_INDEX_SUFFIX,
    PRODUCER_SNAPSHOT_SUFFIX,
    TIME_INDEX_ENTRY,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    file_name,
)
from kbroker.log.producers.producer_snapshot import SnapshotError, decode_snapshot
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.transaction_index import AbortedTxn, TransactionIndex
from kbroker.record import record_batch
from kbroker.record.record_batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader

_TAIL_ATTEMPTS = 4  # a running broker may be in the middle of a write
_TRANSACTION_BITS = TRANSACTIONAL_BIT | CONTROL_BIT
_TIMESTAMP_ADVICE = {
    FindingCode.TIMESTAMP_FUTURE: "retention by time keeps the segment until then",
    FindingCode.TIMESTAMP_BEHIND: "look-ups by time skip it",
}
_SEQUENCE_ADVICE = {
    FindingCode.SEQUENCE_GAP: (
        "what the producer sent in between is not in the log: look for it in a replica"
    ),
    FindingCode.SEQUENCE_DUPLICATE: "readers are served them twice",
    FindingCode.PRODUCER_EPOCH: (
        "it was fenced when it wrote: readers are served records that it should not have written"
    ),
}
_PROGRESS_BYTES = 4 * 1024 * 1024


class SegmentCheck:
    """One segment of the log of `walk`; used once."""

    def __init__(
        self,
        file_system: FileSystem,
        walk: LogWalk,
        base_offset: int,
        next_base_offset: int | None,
    ) -> None:
        self._file_system = file_system
        self._walk = walk
        self._base_offset = base_offset
        self._next_base_offset = next_base_offset
        self._is_active = next_base_offset is None
        self._path = self._beside(LOG_SUFFIX)
        self._problems: list[tuple[str, Problem]] = []  # of indexes: severity is known at the end
        self._reported_bytes = 0
        self._position = 0  # where the last whole batch ended
        self._damage: DamagedPlace | None = None  # no intact batch since
        self._index = b""  # the entries of the offset index
        self._inside = ContentCheck(
            self._path, walk.view, walk.options, walk.findings, next_base_offset
        )
        broken = walk.options.broken
        # A segment that was not there yet when the others were looked at: look here.
        self._broken = None if broken is None else broken.get(self._path)

    def run(self) -> None:
        """Walk the segment. Raises StorageError."""
        walk = self._walk
        if walk.last_offset >= self._base_offset:
            what = f"begins with {self._base_offset}, the one before ends with {walk.last_offset}"
            self._inside.damaged(
                Problem(FindingCode.SEGMENT_OVERLAP, what), 0, self._base_offset, may_be_dead=False
            )
        self._offsets = self._offset_index()
        self._times = self._time_index()
        self._note(TRANSACTION_INDEX_SUFFIX, self._transactions_begin())
        if walk.sequences.has_producers:
            self._forget_producers()
        first_last_offset = walk.last_offset
        try:
            self._walk_batches()
        finally:
            self._inside.end()
        end = max(walk.last_offset, self._base_offset - 1)
        self._note(OFFSET_INDEX_SUFFIX, self._offsets.end(self._position, end))
        is_closed = walk.view.was_clean or not self._is_active
        self._note(
            TIME_INDEX_SUFFIX, self._times.end(end, is_closed=is_closed and self._times.is_there)
        )
        if self._is_active and walk.transactions.lacks_entries:
            walk.options.pause()
            walk.transactions.came_later(self._transaction_entries())
        is_cleaned = walk.was_compacted or walk.view.cleaner_offset is not None
        self._note(
            TRANSACTION_INDEX_SUFFIX, walk.transactions.end_segment(end, is_cleaned=is_cleaned)
        )
        self._zero_tails()
        recovered = walk.view.is_recovered(self._next_base_offset)
        for path, problem in self._problems:
            walk.index_problem(path, problem.code, problem.what, is_recovered=recovered)
        walk.end_offset = max(walk.end_offset, end + 1)
        walk.totals.segments += 1
        walk.has_batches = walk.has_batches or walk.last_offset > first_last_offset

    def _beside(self, suffix: str) -> str:
        return f"{self._walk.directory}/{file_name(self._base_offset, suffix)}"

    # The .log file

    def _walk_batches(self) -> None:
        start: int | None = 0
        checks_crc = self._broken is None
        pauses = _TAIL_ATTEMPTS - 1 if self._is_active else 0
        while start is not None:
            scan = SegmentScan(self._file_system, self._path, checks_crc=checks_crc, start=start)
            for batch in scan.batches():
                self._batch(scan, batch)
            tail = scan.tail
            if tail is None:
                break
            if pauses and tail.kind is TailKind.TORN:
                pauses -= 1
                self._walk.options.pause()
                start = tail.position
                continue
            self._tail(scan)
            start = self._behind(tail)
            checks_crc = True  # nobody has looked there
        self._walk.totals.size_bytes += scan.size_bytes
        self._progress(scan.size_bytes)

    def _behind(self, tail: Tail) -> int | None:
        """Return the position after bytes that are no batch, as a broker does that has no reason to
        mend the segment. A size that a broken batch claims is not believed.
        """
        walk = self._walk
        if tail.kind is TailKind.ZEROS or walk.view.is_recovered(self._next_base_offset):
            return None
        damage = self._damage or self._damage_at(tail.position)
        start = sound_after(self._file_system, self._path, self._base_offset, damage, self._index)
        walk.last_offset = damage.expected_offset - 1
        walk.transactions.is_whole = False
        walk.sequences.disturbed(damage.expected_offset)
        return start

    def _damage_at(self, position: int) -> DamagedPlace:
        return DamagedPlace(position, max(self._walk.last_offset + 1, self._base_offset))

    def _tail(self, scan: SegmentScan) -> None:
        tail = scan.tail
        assert tail is not None
        if tail.kind is TailKind.ZEROS:
            advice = "a start after an unclean stop cuts it off; no record is lost"
            if not self._is_active:
                advice = f"readers may fail at the end of this segment; {advice}"
            self._say(FindingCode.SEGMENT_ZEROS, tail.reason, advice, tail.position)
            return
        code = FindingCode.BATCH_TORN if tail.kind is TailKind.TORN else FindingCode.SEGMENT_GARBAGE
        self._inside.damaged(Problem(code, tail.reason), tail.position, None)

    def _batch(self, scan: SegmentScan, batch: ScannedBatch) -> None:
        walk = self._walk
        header = batch.header
        walk.totals.batches += 1
        self._position = batch.position + header.size_bytes
        if self._position - self._reported_bytes >= _PROGRESS_BYTES:
            self._progress(self._position)
        if self._broken is not None and batch.position in self._broken:
            self._unknown(batch)  # who looked at it has reported it
            return
        if not batch.is_intact:
            self._inside.wrong_crc(batch)
            self._unknown(batch)
            return
        walk.totals.records += max(header.record_count, 0)
        if header.base_offset > walk.last_offset and is_plain(header, self._base_offset):
            self._good_batch(scan, batch)
            return
        problems = list(header_problems(header, self._base_offset))
        if header.base_offset <= walk.last_offset:
            problems.append(
                Problem(
                    FindingCode.BATCH_ORDER,
                    f"base offset {header.base_offset} follows offset {walk.last_offset}",
                )
            )
        for problem in problems:
            is_order = (
                problem.code == FindingCode.BATCH_ORDER
            )  # the one before may be the wrong one
            self._inside.damaged(
                problem, batch.position, header.base_offset, may_be_dead=not is_order
            )
        self._unknown(batch)

    def _unknown(self, batch: ScannedBatch) -> None:
        """Skip a broken batch without building on its header."""
        walk = self._walk
        self._damage = self._damage or self._damage_at(batch.position)
        walk.transactions.is_whole = False
        plausible = walk.last_offset < batch.header.last_offset
        self._note(OFFSET_INDEX_SUFFIX, self._offsets.batch(batch, walk.last_offset))
        if plausible and batch.header.last_offset - self._base_offset < 2**31:
            walk.last_offset = batch.header.last_offset
        walk.sequences.disturbed(walk.last_offset + 1)

    def _good_batch(self, scan: SegmentScan, batch: ScannedBatch) -> None:
        """Check a batch, and its index entries and epoch only if they are due: most are small."""
        walk = self._walk
        header = batch.header
        last_offset = header.base_offset + header.last_offset_delta
        self._damage = None
        if self._inside.is_awaiting:
            self._inside.sound(header.base_offset)
        self._look_for_gap(batch)
        if batch.position >= self._offsets.due_position:
            self._note(OFFSET_INDEX_SUFFIX, self._offsets.batch(batch, walk.last_offset))
        times = self._times
        if last_offset >= times.due_offset:
            self._note(TIME_INDEX_SUFFIX, times.batch(batch))
        elif header.max_timestamp > times.newest:
            times.newest = header.max_timestamp
        if not walk.epochs.is_expected(header.partition_leader_epoch, last_offset):
            self._look_at_epoch(header)
        if header.attributes & _TRANSACTION_BITS:
            self._transaction(scan, batch)
        if not header.attributes & CONTROL_BIT:
            self._look_at_producer(batch)
        if walk.options.watcher is not None:
            walk.options.watcher.batch(header)
        if walk.options.is_deep:
            self._inside.look(scan, batch)
        walk.last_offset = last_offset

    def _look_at_producer(self, batch: ScannedBatch) -> None:
        """Check the sequences of the batch's producer, and its time."""
        walk, header = self._walk, batch.header
        if header.producer_id >= 0:
            self._sequence_problem(batch, walk.sequences.batch(header))
        problem = None
        if not walk.timestamps.is_plain(header):
            problem = walk.timestamps.batch(header)
        if problem is not None:
            advice = _TIMESTAMP_ADVICE.get(problem.code, "readers are still served it")
            self._say(problem.code, problem.what, advice, batch.position, header.base_offset)

    def _sequence_problem(self, batch: ScannedBatch, problem: Problem | None) -> None:
        is_served = batch.header.last_offset >= (self._walk.view.log_start_offset or 0)
        if problem is not None and is_served:
            advice = _SEQUENCE_ADVICE[problem.code]
            self._say(problem.code, problem.what, advice, batch.position, batch.header.base_offset)

    def _look_at_epoch(self, header: BatchHeader) -> None:
        walk = self._walk
        for problem in walk.epochs.batch(header):
            path = f"{walk.directory}/{LEADER_EPOCH_CHECKPOINT_FILE}"
            advice = "followers may not find where their logs part; a start that recovers the log "
            advice += "writes it again"
            walk.say(problem.code.finding(path, problem.what, advice))

    def _look_for_gap(self, batch: ScannedBatch) -> None:
        walk = self._walk
        header = batch.header
        if header.record_count <= header.last_offset_delta:
            walk.was_compacted = True
        expected = walk.last_offset + 1 if walk.last_offset >= 0 else self._base_offset
        if header.base_offset == expected:
            return
        if tells_first_offset(header) and header.base_offset > expected:
            walk.gap(OffsetGap(expected, header.base_offset - 1, self._path, batch.position))

    def _transaction(self, scan: SegmentScan, batch: ScannedBatch) -> None:
        walk = self._walk
        header = batch.header
        if not header.is_control:
            walk.transactions.data(header)
            return
        if header.producer_id >= 0:
            self._sequence_problem(batch, walk.sequences.marker(header))
        try:
            markers = [record_batch.read_control(r) for r in record_batch.records(scan.read(batch))]
        except KafkaError as error:
            what = f"a control batch cannot be read: {error.message}"
            problem = Problem(FindingCode.BATCH_CONTROL, what)
            self._inside.damaged(problem, batch.position, header.base_offset)
            return
        for marker in markers:
            if marker is not None:
                self._note(
                    TRANSACTION_INDEX_SUFFIX,
                    walk.transactions.marker(header, is_commit=marker.is_commit),
                )

    def _say(
        self,
        code: FindingCode,
        what: str,
        advice: str,
        position: int,
        offset: int | None = None,
    ) -> None:
        self._walk.say(code.finding(self._path, what, advice, position=position, offset=offset))

    def _progress(self, position: int) -> None:
        self._walk.options.progress(position - self._reported_bytes)
        self._reported_bytes = position

    # The files beside it

    def _offset_index(self) -> OffsetIndexCheck:
        data, size = self._index_bytes(OFFSET_INDEX_SUFFIX, OFFSET_INDEX_ENTRY.size)
        self._index = data
        return OffsetIndexCheck(data, self._base_offset, size)

    def _time_index(self) -> TimeIndexCheck:
        data, size = self._index_bytes(TIME_INDEX_SUFFIX, TIME_INDEX_ENTRY.size)
        is_there = self._file_system.exists(self._beside(TIME_INDEX_SUFFIX))
        return TimeIndexCheck(data, self._base_offset, size, is_there=is_there)

    def _index_bytes(self, suffix: str, entry_size: int) -> tuple[bytes, int]:
        """Return the entries, without the hole at the end of an active segment's file, and the size
        of the file. Reports what a start finds and repairs by itself.
        """
        path = self._beside(suffix)
        if not self._file_system.exists(path):
            if not self._file_system.exists(self._path):  # a broker renames it first
                raise StorageError(self._path, "open", ENOENT)
            self._walk.say(FindingCode.INDEX_MISSING.finding(path, "is missing", REBUILT))
            return b"", 0
        self._walk.totals.files += 1
        size = self._file_system.size(path)
        for _ in range(_TAIL_ATTEMPTS if self._is_active else 0):
            if not size % entry_size:
                break
            self._walk.options.pause()  # a running broker may be giving it its full size
            size = self._file_system.size(path)
        if size % entry_size:
            what = f"{size} bytes are not a multiple of {entry_size}"
            self._walk.say(FindingCode.INDEX_SIZE.finding(path, what, REBUILT))
        return self._file_system.read_written(path), size

    def _transactions_begin(self) -> Iterator[Problem]:
        path = self._beside(TRANSACTION_INDEX_SUFFIX)
        if self._file_system.exists(path):
            self._walk.totals.files += 1
        entries = self._transaction_entries()
        yield from self._walk.transactions.begin_segment(entries, self._base_offset)

    def _transaction_entries(self) -> list[AbortedTxn]:
        path = self._beside(TRANSACTION_INDEX_SUFFIX)
        try:
            return TransactionIndex(self._file_system, path, self._base_offset).entries
        except CorruptIndexError as error:
            what = str(error).removeprefix(f"{path}: ")
            self._walk.say(FindingCode.TXNINDEX_UNREADABLE.finding(path, what, REBUILT))
            return []

    def _forget_producers(self) -> None:
        """Forget the producers that the broker had forgotten when it began the segment."""
        path = self._beside(PRODUCER_SNAPSHOT_SUFFIX)
        if self._file_system.exists(path):
            try:
                entries = decode_snapshot(self._file_system.read_bytes(path))
            except SnapshotError:  # the check of snapshots reports it
                return
            self._walk.sequences.knows({entry.producer_id for entry in entries})

    def _zero_tails(self) -> None:
        if self._is_active and not self._walk.view.was_clean:
            return  # its indexes have their full size until it is closed
        for suffix, check in (
            (OFFSET_INDEX_SUFFIX, self._offsets),
            (TIME_INDEX_SUFFIX, self._times),
        ):
            if check.has_zero_tail:
                what = f"zeros follow its {check.entry_count} entries, though the segment is closed"
                advice = "look-ups may begin too early; a start that recovers the segment trims it"
                path = self._beside(suffix)
                self._walk.say(FindingCode.INDEX_ZEROS.finding(path, what, advice))

    def _note(self, suffix: str, problems: Iterator[Problem]) -> None:
        self._problems.extend((self._beside(suffix), problem) for problem in problems)
