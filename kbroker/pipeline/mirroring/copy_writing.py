"""Writes a mirror's copy of one partition, in one transaction after the other: records, their
stretch of the offset map, and the place in the source.

Law: the three become visible at once, if the target has transactions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.transactional_producer import Position, TransactionalProducer
from kbroker.client.wall_clock import unix_now_ms
from kbroker.model import TopicPartition
from kbroker.pipeline.cluster_errors import finish
from kbroker.pipeline.mirroring.mirrored_records import RecordMarks
from kbroker.pipeline.mirroring.offsets_topic import OFFSETS_PARTITION, key_of
from kbroker.pipeline.mirroring.places import Beginning, PlaceNote, SourcePartition
from kbroker.pipeline.mirroring.stretches import CopiedStretch, parted
from kbroker.pipeline.restoring.topics.offset_runs import written_runs
from kbroker.record.bulk_records import body_of
from kbroker.record.default_record import Record
from kbroker.record.record_batch import BatchHeader

_TRANSACTION_S = 10.0
_TRANSACTION_BYTES = 64 * 1024 * 1024  # of bodies, after which one is committed
_NEW_S, _PAUSE_S = 5.0, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOptions:
    """The copy of one partition, and the group it is for: that of all mirrors between these two
    clusters, so that one with another checkpoint goes on where this one was.
    """

    source: SourcePartition
    source_id: str  # ids of the clusters
    target_id: str
    target_topic: str  # its id
    group: str
    known: Position  # by the map of offsets, if the group has been forgotten
    seen: Position  # where the mirror was before the round looked at the source
    allows_loss: bool
    compression: int
    in_transactions: bool = True


class CopyWriting:
    """The transaction that is open, or to be opened; owned by one thread."""

    def __init__(
        self,
        links: ClusterLinks,
        options: CopyOptions,
        producer: TransactionalProducer,
        begun: Beginning,
    ) -> None:
        self._options, self._producer = options, producer
        self._partition = options.source.partition
        self._marks = RecordMarks(options.source_id, options.target_id)
        self._written: list[tuple[int, int]] = []  # records and offset of each batch
        self._sender = producer.sender(
            ready_topic(links, self._partition, "target"),
            options.compression,
            lambda _, records, offset: self._written.append((records, offset)),
        )
        map_topic = ready_topic(links, OFFSETS_PARTITION, "target")
        self._map_sender = producer.sender(map_topic, options.compression)
        self._start = begun.covered_offset
        self._leader_epoch = -1
        self.next_offset = begun.offset
        self._begin()

    @property
    def is_full(self) -> bool:
        """Return whether it should be committed now."""
        is_old = time.monotonic() - self._begun_s >= _TRANSACTION_S
        return self._bytes >= _TRANSACTION_BYTES or is_old

    def put(self, header: BatchHeader, read: Sequence[Record]) -> None:
        """Send the records of a batch, of those `read`, that are to be copied."""
        records = self._marks.to_copy(read)
        if read:
            self.next_offset = read[-1].offset + 1
        self._leader_epoch = max(self._leader_epoch, header.partition_leader_epoch)
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
        finish(self._sender, f"{self._partition} of the target")

    def commit(self, next_offset: int) -> tuple[int, int]:
        """Make everything written visible, with the place; return the records and their bytes."""
        options = self._options
        self._put_stretch(next_offset)
        note = PlaceNote(options.source.topic_id, options.target_topic, self._leader_epoch)
        self._producer.commit(Position(next_offset, str(note)))
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
        stretch = CopiedStretch(
            start=self._start,
            end=next_offset,
            source_topic=options.source.topic_id,
            target_topic=options.target_topic,
            runs=tuple(written_runs(self._offsets, self._written)),
        )
        bodies = [
            body_of(
                key_of(options.source_id, self._partition, part.start), msgspec.json.encode(part)
            )
            + b"\0"
            for part in parted(stretch)
        ]
        self._producer.add_partitions([OFFSETS_PARTITION])
        now_ms = unix_now_ms()
        self._map_sender.put(OFFSETS_PARTITION.partition, bodies, now_ms)
        finish(self._map_sender, f"{OFFSETS_PARTITION} of the target")


def ready_topic(links: ClusterLinks, partition: TopicPartition, cluster: str) -> TopicView:
    """Return the topic; waits a while if the partition has just been made."""
    give_up_s = time.monotonic() + _NEW_S
    while True:
        view = links.ready_topic(partition.topic)
        if view is not None and partition.partition in view.leaders:
            return view
        if time.monotonic() > give_up_s:
            raise ClientError(f"the {cluster} has no partition {partition}")
        time.sleep(_PAUSE_S)
