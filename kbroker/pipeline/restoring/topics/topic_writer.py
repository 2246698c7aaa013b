"""Writes rows into one partition of a topic, in transactions, and each row once.

Law: the place that a group keeps (see `client.exactly_once`) is that of the next row in the source.
Its note is the number of the last transaction, up to which the offset map counts. The place is set
before the first transaction, too: a group that has nothing beside a map with lines has forgotten.
If it may forget, as a run has reached the end, the topic has to end where the map does: with a map
older than the topic, rows would be written twice. Everything goes into one topic, by id: nothing is
committed in another one of the same name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from uuid import UUID

import pyarrow as pa

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.exactly_once import OnceOptions, write_once
from kbroker.client.transactional_producer import NOTHING, Position, TransactionalProducer
from kbroker.model import ZERO_UUID, TopicPartition
from kbroker.pipeline.archiving.ordered.ordered_reading import joined_rows
from kbroker.pipeline.cluster_errors import finish
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.pace import Pace
from kbroker.pipeline.restoring.row_batches import BatchForm, producer_batches
from kbroker.pipeline.restoring.topics.offset_map import OffsetMap
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun, written_runs
from kbroker.pipeline.restoring.topics.others_records import check_before, check_end
from kbroker.record.compression import NONE

_TRANSACTION_S = 10.0
_LONGEST_WAIT_S = 5.0  # within a transaction
_PATIENCE_S = 60.0
_PAUSE_S = 0.1
_BEGINNING = Position(0, "0")

RowsFrom = Callable[[int], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """How a partition is written. The group is that of the restore; the transactional id is that of
    the partition in it, the same in each run and used by nothing else.
    """

    group: str
    transactional_id: str
    # How far earlier runs came that reached the end: the group may have expired since.
    reached: Position = NOTHING
    topic_id: UUID = ZERO_UUID  # not known
    appends: bool = False  # behind what others have written
    compression: int = NONE
    transaction_bytes: int = 64 * 1024 * 1024  # of rows, after which one is committed
    pace: Pace = field(default_factory=Pace)
    on_commit: Callable[[int], None] = lambda _rows: None  # so many has this run committed


class TopicWriter:
    """Owned by one thread; `rows` counts what this run has committed."""

    def __init__(
        self,
        links: ClusterLinks,
        target: TopicPartition,
        offset_map: OffsetMap,
        options: WriterOptions,
    ) -> None:
        self.rows = 0
        self._links = links
        self._target = target
        self._map = offset_map
        self._options = options

    def write(self, rows_from: RowsFrom) -> bool:
        """Write the rows that `rows_from(offset)` gives, from the first one that is not there yet;
        False if it was stopped before the end.

        Raises PipelineError, ClientError, KafkaError and OSError.
        """
        options = OnceOptions(
            transactional_id=self._options.transactional_id,
            group=self._options.group,
            partition=self._target,
            refusals=(PipelineError,),
            give_up=lambda reason: PipelineError(
                f"{self._target} cannot be written: {reason} run have the same checkpoint?)"
            ),
        )
        return write_once(self._links, options, partial(self._write_rest, rows_from))

    def _write_rest(self, rows_from: RowsFrom, producer: TransactionalProducer) -> bool | None:
        """Return what `write` does, None if another producer writes the rest."""
        told = producer.place
        told = told if told.metadata else NOTHING  # without a note it is somebody else's
        position = max(told, self._options.reached, _BEGINNING, key=lambda each: each.offset)
        number = int(position.metadata)
        self._map.go_on_after(number, is_confirmed=told != NOTHING)
        writing = _Writing(producer, self._view(), self._target, self._options)
        rows = rows_from(position.offset)
        if told == NOTHING:
            if number:  # earlier runs have reached the end
                first = next(rows, None)
                if first is None:
                    return True
                if not self._options.appends:
                    check_end(self._links, self._view(), self._target, self._map.runs(number)[-1])
                rows = chain([first], rows)
            producer.commit(position)
        return self._write_on(producer, writing, rows, number)

    def _write_on(
        self,
        producer: TransactionalProducer,
        writing: _Writing,
        batches: Iterator[pa.RecordBatch],
        number: int,
    ) -> bool | None:
        goes_on = True
        for rows in batches:
            if producer.lost_an_answer and not writing.offsets:
                return None
            wait_s = self._options.pace.owed_s(writing.put(rows))
            if writing.is_full or wait_s > _LONGEST_WAIT_S:
                number += 1
                self._commit(producer, writing, number)
            goes_on = self._options.pace.wait(wait_s)
            if not goes_on:
                break
        if writing.offsets:
            self._commit(producer, writing, number + 1)
        return goes_on

    def _commit(self, producer: TransactionalProducer, writing: _Writing, number: int) -> None:
        next_offset = writing.offsets[-1] + 1
        runs = writing.finished()
        view = self._view()
        if number == 1 and not self._options.appends:
            check_before(self._links, view, self._target, runs[0].target_offset)
        self._map.add(number, next_offset, runs)
        producer.commit(Position(next_offset, str(number)))
        self.rows += len(writing.offsets)
        self._options.on_commit(self.rows)
        writing.begin()

    def _view(self) -> TopicView:
        """Return the topic; waits, as brokers may be away."""
        give_up_s = time.monotonic() + _PATIENCE_S
        view = None
        while view is None and time.monotonic() < give_up_s:
            with suppress(OSError):
                view = self._links.ready_topic(self._target.topic)
            if view is None:
                time.sleep(_PAUSE_S)
        if view is None or self._target.partition not in view.leaders:
            raise ClientError(f"the target has no partition {self._target}")
        check_same(self._target.topic, self._options.topic_id, view)
        return view


def check_same(name: str, topic_id: UUID, view: TopicView | None) -> None:
    """Raise PipelineError if a topic does not have this id, so that what was written is gone."""
    if view is None or view.topic_id != topic_id != ZERO_UUID:
        raise PipelineError(
            f"topic {name} was deleted{'' if view is None else ' and created again'} since the "
            f"restore began to write into it: begin with a new --checkpoint, and --topics for what "
            "is gone"
        )


class _Writing:
    """The transaction that is open."""

    def __init__(
        self,
        producer: TransactionalProducer,
        view: TopicView,
        target: TopicPartition,
        options: WriterOptions,
    ) -> None:
        self._producer, self._target, self._options = producer, target, options
        self._written: list[tuple[int, int]] = []  # records and offset of each batch
        self._sender = producer.sender(
            view,
            options.compression,
            lambda _, records, offset: self._written.append((records, offset)),
        )
        self.begin()

    @property
    def is_full(self) -> bool:
        """Return whether it should be committed now."""
        is_old = time.monotonic() - self._begun_s >= _TRANSACTION_S
        return self._bytes >= self._options.transaction_bytes or is_old

    def begin(self) -> None:
        """Begin the next transaction."""
        self.offsets: list[int] = []  # of the source
        self._written.clear()
        self._held: list[pa.RecordBatch] = []
        self._bytes = self._held_bytes = 0
        self._begun_s = time.monotonic()

    def put(self, rows: pa.RecordBatch) -> int:
        """Send rows, together with others if they are few; return how many bytes they are."""
        self._producer.add_partitions([self._target])
        self.offsets += rows.column("offset").to_pylist()
        self._held.append(rows)
        size_bytes: int = rows.nbytes
        self._held_bytes += size_bytes
        self._bytes += size_bytes
        if self._held_bytes >= self._sender.batch_bytes:
            self._send()
        return size_bytes

    def _send(self) -> None:
        if not self._held:
            return
        form = BatchForm(most_bytes=self._sender.batch_bytes, codec=self._options.compression)
        for batch in producer_batches(joined_rows(self._held), form):
            self._sender.put_packed(self._target.partition, batch.packed(), 0)
        self._held, self._held_bytes = [], 0
        self._sender.send_until(lambda: self._sender.has_room)

    def finished(self) -> list[OffsetRun]:
        """Wait until all is written; return the runs."""
        self._send()
        finish(self._sender, str(self._target))
        return written_runs(self.offsets, self._written)
