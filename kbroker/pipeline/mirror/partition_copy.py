"""Copies one partition from where the mirror is in it up to an end, in transactions.

Law: a group of the target keeps the place in the source, in the transactions that hold the records
and their stretch of the offset map. Whoever goes on, in this process or the next, asks it first; so
whatever happened to a transaction, its records are there once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.fetched_batches import FetchedBatch, records_in
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.record_sender import RecordSender, SendOptions, TransactionLostError
from kbroker.client.transactional_producer import Position, TransactionalProducer
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirror.mirrored_records import RecordMarks
from kbroker.pipeline.mirror.offsets_topic import OFFSETS_PARTITION, key_of
from kbroker.pipeline.mirror.places import (
    Beginning,
    PlaceNote,
    RoundOverError,
    SourcePartition,
    beginning,
    gap_refusal,
    is_another,
)
from kbroker.pipeline.mirror.source_look import id_of
from kbroker.pipeline.mirror.stretches import Stretch
from kbroker.pipeline.mirror.untransacted import UntransactedCopies
from kbroker.pipeline.restore.topics.offset_runs import OffsetRun, joined, runs_of
from kbroker.record.bulk_records import body_of

_TRANSACTION_S = 10.0
_TRANSACTION_BYTES = 64 * 1024 * 1024  # of bodies, after which one is committed
_TIMEOUT_MS = 60_000  # of a transaction that nobody ends
_PATIENCE_S = 60.0
_NEW_S, _PAUSE_S = 5.0, 0.1
_ATTEMPTS = 5  # in which nothing was committed


AnyProducer = TransactionalProducer | UntransactedCopies


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """What is copied, and as whom. The group is that of all mirrors between these two clusters, so
    that one with another checkpoint goes on where this one was.
    """

    source: SourcePartition
    source_id: str  # of the clusters
    target_id: str
    target_topic: str  # its id
    group: str
    known: Position  # by the map of offsets, where the group has been forgotten
    seen: Position  # where the mirror was before the round looked at the source
    allows_loss: bool
    compression: int
    in_transactions: bool = True


class PartitionCopy:
    """One run; owned by one thread. `rows` and `size_bytes` count what it has committed, `reached`
    is where it is in the source.
    """

    def __init__(
        self,
        readers: ClusterLinks,
        writers: ClusterLinks,
        options: CopyOptions,
        goes_on: Callable[[], bool] = lambda: True,
        on_commit: Callable[[int], None] = lambda _rows: None,
    ) -> None:
        self.rows = self.size_bytes = 0
        self.reached: int | None = None
        self.notes: tuple[str, ...] = ()
        self._committed = -1
        self._readers, self._writers = readers, writers
        self._options = options
        self._partition = options.source.partition
        self._goes_on, self._on_commit = goes_on, on_commit

    def run(self) -> None:
        """Copy, unless it is told to stop before the end.

        Raises PipelineError, ClientError, KafkaError and OSError.
        """
        lost = 0
        while True:
            before = self.reached
            try:
                if self._copy_rest():
                    return
            except TransactionLostError as error:
                self._break_off()
                lost = lost + 1 if self.reached == before else 1
                if lost == _ATTEMPTS:
                    raise RoundOverError(
                        f"{self._partition} cannot be written: {error} ({_ATTEMPTS} times one "
                        "after the other; does another mirror copy the same topic?)"
                    ) from error

    def _copy_rest(self) -> bool:
        """Whether that is all; False where the rest is another producer's."""
        options, partition = self._options, self._partition
        producer = self._new_producer()
        position = producer.committed(options.group, partition)
        position = position if position.offset >= 0 else options.known
        source = options.source
        if position != options.seen:  # somebody has come further since: no sign that a log was cut
            end_offset = max(source.end_offset, position.offset)
            source = replace(source, end_offset=end_offset, epoch_end_offset=None)
        begun = beginning(source, options.target_topic, position, allows_loss=options.allows_loss)
        self.notes = begun.notes
        self.reached = begun.offset
        self._committed = position.offset if begun.offset == position.offset else -1
        if self._committed >= options.source.stable_offset:
            return True
        writing = _Writing(self._writers, options, producer, begun)
        try:
            return self._copy_on(producer, writing, self._fetcher(begun.offset))
        except (PipelineError, RoundOverError):
            producer.abort()  # so that readers need not wait for its time to be over
            raise

    def _copy_on(self, producer: AnyProducer, writing: _Writing, fetcher: RecordFetcher) -> bool:
        for batches in fetcher.answers():
            for batch in batches:
                writing.put(batch)
                if writing.is_full:
                    self._commit(writing, batch.header.next_offset)
                    if producer.lost_an_answer:
                        self._break_off()
                        return False
            if not self._goes_on():
                self._commit(writing, writing.next_offset)
                return True
        self._commit(writing, self._options.source.stable_offset)
        return True

    def _break_off(self) -> None:
        for links in (self._readers, self._writers):
            for link in links.busy():
                links.lose(link)  # what it still answers is of a transaction that is over

    def _new_producer(self) -> AnyProducer:
        if not self._options.in_transactions:
            return UntransactedCopies(self._writers)
        return TransactionalProducer(
            self._writers,
            f"{self._options.group}-{self._partition}",
            timeout_ms=_TIMEOUT_MS,
            patience_s=_PATIENCE_S,
        )

    def _fetcher(self, offset: int) -> RecordFetcher:
        view = _ready(self._readers, self._partition, "source")
        course = Course(
            starts={self._partition: offset},
            ends={self._partition: self._options.source.stable_offset},
            only_committed=True,
            on_gap=_refuse_gap,
        )
        return RecordFetcher(self._readers, [view], course, lambda _: None)

    def _commit(self, writing: _Writing, next_offset: int) -> None:
        if next_offset == self._committed:
            return
        writing.finish()
        self._check_topics()
        records, size_bytes = writing.commit(next_offset)
        self.rows += records
        self.size_bytes += size_bytes
        self.reached = self._committed = next_offset
        self._on_commit(self.rows)

    def _check_topics(self) -> None:
        """Commit nothing that may be of, or in, a topic that was made since the round began."""
        options, topic = self._options, self._partition.topic
        sides = (
            ("source", self._readers, options.source.topic_id),
            ("target", self._writers, options.target_topic),
        )
        for cluster, links, known in sides:
            try:
                found = id_of(links.topic(topic))
            except OSError:
                continue  # who is away makes no topics
            if is_another(known, found):
                raise RoundOverError(
                    f"topic {topic} was created again in the {cluster} while it was copied: run "
                    "again"
                )


class _Writing:
    """The transaction that is open, or to be opened."""

    def __init__(
        self,
        links: ClusterLinks,
        options: CopyOptions,
        producer: AnyProducer,
        begun: Beginning,
    ) -> None:
        self._options, self._producer = options, producer
        self._partition = options.source.partition
        self._marks = RecordMarks(options.source_id, options.target_id)
        self._written: list[tuple[int, int]] = []  # records and offset of each batch
        self._sender = self._new_sender(
            links,
            self._partition,
            lambda _, records, offset: self._written.append((records, offset)),
        )
        self._map_sender = self._new_sender(links, OFFSETS_PARTITION, lambda *_: None)
        self._start = begun.covered_offset
        self._leader_epoch = -1
        self.next_offset = begun.offset
        self._begin()

    @property
    def is_full(self) -> bool:
        """Whether it should be committed now."""
        is_old = time.monotonic() - self._begun_s >= _TRANSACTION_S
        return self._bytes >= _TRANSACTION_BYTES or is_old

    def put(self, batch: FetchedBatch) -> None:
        """Send the records of a batch that are to be copied."""
        records = self._marks.to_copy(records_in(batch))
        self.next_offset = batch.header.next_offset
        self._leader_epoch = max(self._leader_epoch, batch.header.partition_leader_epoch)
        if not records:
            return
        self._producer.add_partitions([self._partition])
        bodies = self._marks.bodies(records)
        times = [record.timestamp for record in records]
        self._sender.put(self._partition.partition, bodies, 0, times)
        self._offsets += [record.offset for record in records]
        self._bytes += sum(map(len, bodies))
        self._sender.send_until(lambda: self._sender.has_room)

    def finish(self) -> None:
        """Wait until all that was put is written."""
        self._finish(self._sender, self._partition)

    def commit(self, next_offset: int) -> tuple[int, int]:
        """Make what was put and is written visible, with the place in the source; records and
        their bytes.
        """
        options = self._options
        self._put_stretch(next_offset)
        note = PlaceNote(options.source.topic_id, options.target_topic, self._leader_epoch)
        place = {self._partition: Position(next_offset, str(note))}
        self._producer.commit(options.group, place)
        done = len(self._offsets), self._bytes
        self._start = self.next_offset = next_offset
        self._begin()
        return done

    def _begin(self) -> None:
        self._offsets: list[int] = []  # of the source
        self._written.clear()
        self._bytes = 0
        self._begun_s = time.monotonic()

    def _put_stretch(self, next_offset: int) -> None:
        options = self._options
        stretch = Stretch(
            start=self._start,
            end=next_offset,
            source_topic=options.source.topic_id,
            target_topic=options.target_topic,
            runs=tuple(self._runs()),
        )
        body = body_of(
            key_of(options.source_id, self._partition, self._start), msgspec.json.encode(stretch)
        )
        self._producer.add_partitions([OFFSETS_PARTITION])
        now_ms = time.time_ns() // 1_000_000
        self._map_sender.put(OFFSETS_PARTITION.partition, [body + b"\0"], now_ms)
        self._finish(self._map_sender, OFFSETS_PARTITION)

    def _runs(self) -> list[OffsetRun]:
        runs: list[OffsetRun] = []
        at = 0
        for records, offset in sorted(self._written, key=lambda batch: batch[1]):
            runs += runs_of(self._offsets[at : at + records], offset)
            at += records
        assert at == len(self._offsets), "each record was answered for"
        return joined(runs)

    def _finish(self, sender: RecordSender, partition: TopicPartition) -> None:
        """Wait until all is written."""
        sender.complete(time.time_ns() // 1_000_000)
        sender.send_until(lambda: sender.is_idle)
        if sender.refusal is not None:
            raise PipelineError(f"{partition} of the target refuses records: {sender.refusal}")

    def _new_sender(
        self,
        links: ClusterLinks,
        partition: TopicPartition,
        on_written: Callable[[int, int, int], None],
    ) -> RecordSender:
        options = SendOptions(
            compression=self._options.compression,
            headers=None,
            patience_s=_PATIENCE_S,
            producer=self._producer.producer,
            on_written=on_written,
        )
        return RecordSender(links, _ready(links, partition, "target"), options)


def _ready(links: ClusterLinks, partition: TopicPartition, cluster: str) -> TopicView:
    """The topic, waited for a while where the partition has just been made."""
    give_up_s = time.monotonic() + _NEW_S
    while True:
        view = links.ready_topic(partition.topic)
        if view is not None and partition.partition in view.leaders:
            return view
        if time.monotonic() > give_up_s:
            raise ClientError(f"the {cluster} has no partition {partition}")
        time.sleep(_PAUSE_S)


def _refuse_gap(partition: TopicPartition, was: int, now: int) -> None:
    raise gap_refusal(partition, was, now)
