"""`kbroker-mirror-offsets`: the topic of the target that maps the source's offsets to its own.

    key    {"source": cluster id, "topic": name, "partition": number, "start": first offset}
    value  {"start": ..., "end": ..., "source_topic": id, "target_topic": id,
            "runs": [[offset in the source, offset in the target, records], ...]}

It is compacted, with one record or several per transaction; a record without a value deletes those
of offsets that the source no longer has.

Law: a stretch is written in the transaction of its records, so neither is there without the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

import msgspec

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.client.wall_clock import unix_now_ms
from kbroker.model import TopicPartition
from kbroker.pipeline.mirroring.stretches import CopiedStretch, PartitionOffsets
from kbroker.record.bulk_records import body_of
from kbroker.record.default_record import Record

OFFSETS_TOPIC = "kbroker-mirror-offsets"
OFFSETS_PARTITION = TopicPartition(OFFSETS_TOPIC, 0)
OFFSETS_SETTINGS = {"cleanup.policy": "compact"}


_PAUSE_S = 0.2


class _Key(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    topic: str
    partition: int
    start: int


def key_of(source_id: str, partition: TopicPartition, start: int) -> bytes:
    """Return the key of a stretch that begins there."""
    key = _Key(source=source_id, topic=partition.topic, partition=partition.partition, start=start)
    return msgspec.json.encode(key)


class MirroredOffsets:
    """A cluster's map of offsets from one source, read on and on. Owned by one thread."""

    def __init__(self, source_id: str) -> None:
        self._source_id = source_id
        self._partitions: dict[TopicPartition, PartitionOffsets] = {}
        self._position = 0
        self._topic_id: object = None

    def partition(self, partition: TopicPartition) -> PartitionOffsets:
        """Return the stretches of a partition, none if nothing was copied."""
        return self._partitions.setdefault(partition, PartitionOffsets())

    def read_on(self, links: ClusterLinks, patience_s: float = 0.0) -> bool:
        """Read what has been committed since; return whether that is all that was written before.
        Waits up to `patience_s` for what is behind an open transaction, such as another mirror's.

        Raises ClientError, KafkaError and OSError.
        """
        view = links.ready_topic(OFFSETS_TOPIC)
        if view is None:
            return True
        if view.topic_id != self._topic_id:  # the topic was created again
            self._topic_id, self._position = view.topic_id, 0
            self._partitions.clear()
        number = OFFSETS_PARTITION.partition
        start = links.offsets(view, [number], EARLIEST)[number]
        written = links.offsets(view, [number], LATEST)[number]
        give_up_s = time.monotonic() + patience_s
        while True:
            end = links.offsets(view, [number], LATEST, only_committed=True)[number]
            if end >= written or time.monotonic() >= give_up_s:
                break
            time.sleep(_PAUSE_S)
        starts = {OFFSETS_PARTITION: max(start, self._position)}
        course = Course(starts=starts, ends={OFFSETS_PARTITION: end}, only_committed=True)
        for _, records in RecordFetcher(links, [view], course, lambda _: None).batches():
            for record in records:
                self._take(record)
        self._position = max(end, self._position)
        return end >= written

    def _take(self, record: Record) -> None:
        try:
            key = msgspec.json.decode(record.key or b"", type=_Key)
            stretch = (
                msgspec.json.decode(record.value, type=CopiedStretch) if record.value else None
            )
        except msgspec.DecodeError:
            return  # no mirror wrote this
        if key.source != self._source_id:
            return
        offsets = self.partition(TopicPartition(key.topic, key.partition))
        if stretch is None:
            offsets.remove(key.start)
        else:
            offsets.add(stretch)


def forget(
    links: ClusterLinks, source_id: str, starts: Mapping[TopicPartition, Iterable[int]]
) -> None:
    """Delete the stretches that begin there. Raises ClientError, KafkaError and OSError."""
    keys = [key_of(source_id, each, start) for each, some in starts.items() for start in some]
    view = links.ready_topic(OFFSETS_TOPIC)
    if not keys or view is None:
        return
    sender = RecordSender(links, view, SendOptions())
    now_ms = unix_now_ms()
    sender.put(OFFSETS_PARTITION.partition, [body_of(key, None) for key in keys], now_ms)
    sender.complete(now_ms)
    sender.send_until(lambda: sender.is_idle)
