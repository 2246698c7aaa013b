"""Reads one partition of an internal topic into the coordinator that keeps its state there.

Law: a batch or record that cannot be read is skipped and hides none of its neighbours, so that
damage costs a coordinator no more than what it hit; it is reported once. A transaction whose marker
was skipped ends as the log knows that it ended. This holds for every internal topic.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Protocol

from kbroker.coordinator.runtime.versioned_record import KeptRecordError
from kbroker.errors import KafkaError, ProtocolError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log_replay import MISSING, LogReplay, ReplayedLog, ReplayGap, WholeBatch
from kbroker.log.segments.index_file import CorruptIndexError
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.model import TopicPartition
from kbroker.record.readable_records import readable_records
from kbroker.record.record_batch import BatchHeader, Record, read_control

_log = logging.getLogger(__name__)

_SHOWN = 5
_RECORDS_AT_ONCE = 200  # a millisecond


class Replay(Protocol):
    """Takes in the records of one partition, in the order of its log."""

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, producer_id: int | None
    ) -> None:
        """Take in one record; `producer_id` if it belongs to a transaction.

        A record that is not understood changes nothing and raises ProtocolError; one of a kind that
        is known, and not served, KeptRecordError.
        """
        ...

    def marker(self, producer_id: int, is_commit: bool) -> None:
        """The end of a producer's transaction."""
        ...

    def open_producers(self) -> Iterable[int]:
        """The producers with a transaction that has not ended yet."""
        ...


class PartitionReplay:
    """One reading of one partition; `gaps`, `not_understood` and `kept` are complete after it."""

    def __init__(self, partition: TopicPartition, log: ReplayedLog, replay: Replay) -> None:
        self._partition = partition
        self._log = log
        self._replay = replay
        self._unsure: dict[int, int] = {}  # producer in a transaction -> the gap it met
        self._aborted_by_producer: defaultdict[int, list[AbortedTxn]] | None = None
        self.gaps: list[ReplayGap] = []
        self.not_understood: Counter[str] = Counter()  # records, by reason
        self.kept: Counter[str] = Counter()  # records that others serve, by kind

    @property
    def saw_everything(self) -> bool:
        return not self.gaps and not self.not_understood and not self.kept

    def steps(self) -> Iterator[None]:
        """Read from start to end; yields after each batch, and within large ones.

        Raises KafkaError KAFKA_STORAGE_ERROR if the disk refuses.
        """
        for found in LogReplay(self._log):
            if isinstance(found, ReplayGap):
                self._pass_over(found)
            else:
                yield from self._take(found)
            yield
        for producer_id in list(self._unsure):
            self._settle(producer_id, self._log.log_end_offset)

    def tell(self) -> None:
        """Log what was skipped."""
        missing = [gap for gap in self.gaps if gap.reason == MISSING]
        others = [gap for gap in self.gaps if gap.reason != MISSING]
        for gap in others[:_SHOWN]:
            _log.error("%s was loaded without %s", self._partition, gap)
        if len(others) > _SHOWN:
            _log.error("%s: %d gaps in all", self._partition, len(others))
        if missing:  # a replica that was copied from a cleaned one has them too
            _log.warning(
                "%s has %d gaps in its offsets, the first is %s",
                self._partition,
                len(missing),
                missing[0],
            )
        for reason, count in self.not_understood.most_common(_SHOWN):
            _log.warning("%s: skipped %d records, %s", self._partition, count, reason)
        for kind, count in sorted(self.kept.items()):
            _log.info(
                "%s: kept %d records that are not served here, %s", self._partition, count, kind
            )

    def _take(self, batch: WholeBatch) -> Iterator[None]:
        header = batch.header
        if header.producer_id in self._unsure and (header.is_transactional or header.is_control):
            self._settle(header.producer_id, header.base_offset)
        try:
            found = readable_records(header, batch.data)
            if header.is_control:
                self._take_markers(header, found)
            else:
                yield from self._take_records(header, found)
        except KafkaError as error:
            self._pass_over(
                ReplayGap(header.base_offset, header.next_offset, batch.path, error.reason)
            )

    def _take_records(
        self, header: BatchHeader, found: Iterable[Record | KafkaError]
    ) -> Iterator[None]:
        """Take the readable ones. The checksum is right: the others were written as they are."""
        take, batch_offset = self._replay.record, header.base_offset
        producer_id = header.producer_id if header.is_transactional else None
        for number, record in enumerate(found, 1):
            if number % _RECORDS_AT_ONCE == 0:
                yield
            if isinstance(record, KafkaError):
                self.not_understood[record.reason] += 1
                continue
            try:
                take(record.key, record.value, batch_offset, producer_id)
            except KeptRecordError as error:
                self.kept[str(error)] += 1
            except ProtocolError as error:
                self.not_understood[str(error)] += 1
            except Exception as error:  # bytes that somebody else wrote must not hide the others
                self.not_understood[f"{type(error).__name__}: {error}"] += 1

    def _take_markers(self, header: BatchHeader, found: Iterable[Record | KafkaError]) -> None:
        for record in found:
            if isinstance(record, KafkaError):
                self.not_understood[record.reason] += 1
                continue
            control = read_control(record)
            if control is not None:
                self._replay.marker(header.producer_id, control.is_commit)

    # ---- transactions across a gap

    def _pass_over(self, gap: ReplayGap) -> None:
        self.gaps.append(gap)
        for producer_id in list(self._replay.open_producers()):
            if any(
                aborted.first_offset < gap.offset <= aborted.last_offset < gap.next_offset
                for aborted in self._aborted(producer_id)
            ):
                self._replay.marker(producer_id, is_commit=False)
                self._unsure.pop(producer_id, None)
            else:
                self._unsure.setdefault(producer_id, gap.offset)

    def _settle(self, producer_id: int, offset: int) -> None:
        """Settle a transaction that met a gap: it was committed there if the transaction of
        `offset` began later, or if none is open at the end of the log.
        """
        gap_offset = self._unsure.pop(producer_id)
        start_offset = self._start_of_transaction(producer_id, offset)
        if start_offset is not None and start_offset >= gap_offset:
            self._replay.marker(producer_id, is_commit=True)

    def _start_of_transaction(self, producer_id: int, offset: int) -> int | None:
        """None for one that was committed: whatever is open will be committed with it."""
        for aborted in self._aborted(producer_id):
            if aborted.first_offset <= offset <= aborted.last_offset:
                return aborted.first_offset
        entry = self._log.producer_state.producers.get(producer_id)
        open_since = entry.current_txn_first_offset if entry is not None else None
        if offset >= self._log.log_end_offset:
            return offset if open_since is None else open_since
        return open_since if open_since is not None and open_since <= offset else None

    def _aborted(self, producer_id: int) -> list[AbortedTxn]:
        if self._aborted_by_producer is None:
            self._aborted_by_producer = defaultdict(list)
            for segment in self._log.segments:
                for aborted in _noted_in(segment):
                    self._aborted_by_producer[aborted.producer_id].append(aborted)
        return self._aborted_by_producer.get(producer_id, [])


def _noted_in(segment: LogSegment) -> list[AbortedTxn]:
    try:
        return segment.transaction_index.entries
    except (StorageError, CorruptIndexError) as error:
        _log.warning("%s cannot be read: %s", segment.transaction_index.path, error)
        return []
