"""Copies one partition from where the mirror is in it up to an end, in transactions.

Law: the place that a group keeps (see `client.exactly_once`) is that in the source, and its
transactions hold the stretch of the offset map, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exactly_once import OnceOptions, write_once
from kbroker.client.fetched_batches import FetchedBatch, record_lists
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.transactional_producer import TransactionalProducer
from kbroker.client.untransacted import UntransactedCopies
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.mirroring.copy_writing import CopyOptions, CopyWriting, ready_topic
from kbroker.pipeline.mirroring.places import (
    RoundOverError,
    UnreadableSourceError,
    beginning,
    gap_refusal,
    is_another,
)
from kbroker.pipeline.mirroring.source_look import id_of
from kbroker.record.default_record import Record

_MOST_NOTES = 20  # of a round


class PartitionCopy:
    """One run, owned by one thread. `rows` and `size_bytes` are committed up to `reached`."""

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
        """Copy up to the end, unless it is stopped before.

        Raises PipelineError, ClientError, KafkaError and OSError.
        """
        group = self._options.group
        options = OnceOptions(
            transactional_id=f"{group}-{self._partition}",
            group=group,
            partition=self._partition,
            refusals=(PipelineError, RoundOverError),
            give_up=lambda reason: RoundOverError(
                f"{self._partition} cannot be written: {reason} mirror copy the same topic?)"
            ),
            kind=TransactionalProducer if self._options.in_transactions else UntransactedCopies,
        )
        write_once(self._writers, options, self._copy_rest, [self._readers])

    def _copy_rest(self, producer: TransactionalProducer) -> bool | None:
        """Return True when everything is copied; None if another producer copies the rest."""
        options = self._options
        position = producer.place
        position = position if position.offset >= 0 else options.known
        source = options.source
        if position != options.seen:  # another mirror came further: no sign that a log was cut
            end_offset = max(source.end_offset, position.offset)
            source = replace(source, end_offset=end_offset, epoch_end_offset=None)
        begun = beginning(source, options.target_topic, position, allows_loss=options.allows_loss)
        self.notes = begun.notes
        self.reached = begun.offset
        self._committed = position.offset if begun.offset == position.offset else -1
        if self._committed >= options.source.stable_offset:
            return True
        writing = CopyWriting(self._writers, options, producer, begun)
        try:
            return self._copy_on(producer, writing, self._fetcher(begun.offset))
        except UnreadableSourceError:
            self._commit(writing, writing.next_offset)
            raise

    def _copy_on(
        self, producer: TransactionalProducer, writing: CopyWriting, fetcher: RecordFetcher
    ) -> bool | None:
        for batches in self._fetched(fetcher):
            for batch in batches:
                for some in self._lists_of(batch):
                    writing.put(batch.header, some)
                    if writing.is_full:
                        self._commit(writing, writing.next_offset)
                        if producer.lost_an_answer:
                            return None
                writing.next_offset = batch.header.next_offset
            if not self._goes_on():
                self._commit(writing, writing.next_offset)
                return True
        self._commit(writing, self._options.source.stable_offset)
        return True

    def _fetched(self, fetcher: RecordFetcher) -> Iterator[list[FetchedBatch]]:
        try:
            yield from fetcher.answers()
        except KafkaError as error:
            if error.code == ErrorCode.CORRUPT_MESSAGE:
                raise UnreadableSourceError(self._partition, error.reason) from error
            raise

    def _lists_of(self, batch: FetchedBatch) -> Iterator[list[Record]]:
        tell = self._note_left_out if self._options.allows_loss else None
        try:
            yield from record_lists(batch, tell)
        except KafkaError as error:
            raise UnreadableSourceError(self._partition, error.reason) from error

    def _note_left_out(self, what: str) -> None:
        if len(self.notes) < _MOST_NOTES:
            self.notes = (*self.notes, f"{what}; left out")

    def _fetcher(self, offset: int) -> RecordFetcher:
        view = ready_topic(self._readers, self._partition, "source")
        course = Course(
            starts={self._partition: offset},
            ends={self._partition: self._options.source.stable_offset},
            only_committed=True,
            on_gap=_refuse_gap,
            tell_unreadable=self._note_left_out if self._options.allows_loss else None,
        )
        return RecordFetcher(self._readers, [view], course, lambda _: None)

    def _commit(self, writing: CopyWriting, next_offset: int) -> None:
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
                continue  # a cluster that is away makes no topics
            if is_another(known, found):
                raise RoundOverError(
                    f"topic {topic} was created again in the {cluster} while it was copied: run "
                    "again"
                )


def _refuse_gap(partition: TopicPartition, was: int, now: int) -> None:
    raise gap_refusal(partition, was, now)
