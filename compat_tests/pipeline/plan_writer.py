"""Writes planned records into a cluster with idempotent producers, one per codec, so that the
record planned for an offset is at that offset.
"""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.pipeline.planned_records import (
    ABORTED_RECORDS,
    CODECS,
    PARTITIONS_PER_TOPIC,
    TOPICS,
    RecordPlan,
)
from compat_tests.running.waiting import until

_CHUNK = 500  # records of a partition before it is the next one's turn
_FLUSH_S = 300
TOPIC_CONFIG = {"retention.ms": "-1", "segment.bytes": str(8 * 1024 * 1024)}


def create_topics(bootstrap: str) -> None:
    """The topics of the plan, with small segments, and kept for ever."""
    topics = [
        NewTopic(topic, PARTITIONS_PER_TOPIC, replication_factor=-1, config=TOPIC_CONFIG)
        for topic in TOPICS
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics(topics).values():
        future.result(30)


class PlanWriter:
    """Writes the plan in stretches: every partition up to a share of its records."""

    def __init__(self, bootstrap: str, plan: RecordPlan) -> None:
        self._plan = plan
        self._errors: list[str] = []
        self._written = dict.fromkeys(plan.partitions(), 0)
        self._producers = {codec: Producer(_settings(bootstrap, codec)) for codec in CODECS}
        self._aborting = _transactional(bootstrap) if plan.aborted_every else None
        self._reader = _reader(bootstrap) if plan.aborted_every else None
        self._thread: threading.Thread | None = None

    def write(self, share: float) -> None:
        """Write until every partition has that share of its records, 1.0 being all of them; raises
        RuntimeError when the cluster refused one.
        """
        ends = {each: int(self._plan.count(*each) * share) for each in self._written}
        while any(self._written[each] < end for each, end in ends.items()):
            for (topic, partition), end in ends.items():
                self._write_chunk(topic, partition, end)
        self._flush()

    def write_slowly(self, seconds: float, steps: int = 40) -> None:
        """Write the rest, spread over that time, beside what the caller does; see `finish`."""
        begun = min(
            written / max(1, self._plan.count(*each)) for each, written in self._written.items()
        )

        def run() -> None:
            try:
                for step in range(1, steps + 1):
                    self.write(begun + (1 - begun) * step / steps)
                    time.sleep(seconds / steps)
            except RuntimeError as error:
                self._errors.append(str(error))

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for `write_slowly`, and write what may be missing."""
        if self._thread is not None:
            self._thread.join()
        self.write(1.0)

    def _write_chunk(self, topic: str, partition: int, end: int) -> None:
        start = self._written[topic, partition]
        stop = min(end, start + _CHUNK)
        producer = self._producers[self._plan.codec(topic, partition)]
        every = self._plan.aborted_every
        if every:
            stop = min(stop, (start // every + 1) * every)
            if start and start % every == 0:
                self._flush()
                self._abort(topic, partition, self._plan.offset_of(start))
        for record in self._plan.stretch(topic, partition, start, stop):
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        partition,
                        on_delivery=self._delivered,
                        timestamp=record.timestamp_ms,
                        headers=list(record.headers or ()),
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.poll(0)
        self._written[topic, partition] = stop

    def _abort(self, topic: str, partition: int, end: int) -> None:
        """Write a transaction that readers of committed records never see, up to an offset."""
        assert self._aborting is not None
        assert self._reader is not None
        place, reader = TopicPartition(topic, partition), self._reader
        self._aborting.begin_transaction()
        for _ in range(ABORTED_RECORDS):
            self._aborting.produce(topic, b"aborted", partition=partition)
        self._aborting.flush(_FLUSH_S)
        self._aborting.abort_transaction(_FLUSH_S)
        # The coordinator answers before its marker is in the log.
        until(lambda: reader.get_watermark_offsets(place, timeout=30)[1] == end, f"{place}: {end}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._errors.append(str(error))

    def _flush(self) -> None:
        for producer in self._producers.values():
            if producer.flush(_FLUSH_S):
                self._errors.append("records were never answered")
        if self._errors:
            raise RuntimeError(f"{len(self._errors)} records not written: {self._errors[0]}")


def check_end_offsets(bootstrap: str, plan: RecordPlan) -> None:
    """AssertionError unless every partition holds as many offsets as were planned."""
    consumer = _reader(bootstrap)
    for topic, partition in plan.partitions():
        found = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        assert found == (0, plan.end_offset(topic, partition)), (topic, partition, found)
    consumer.close()


def _reader(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "end-offsets", "log_level": 0})


def _transactional(bootstrap: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "transactional.id": "planned", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions(_FLUSH_S)
    return producer


def _settings(bootstrap: str, codec: str) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "compression.type": codec,
        "linger.ms": 20,
        "batch.size": 131_072,
        "queue.buffering.max.messages": 200_000,
        "log_level": 0,
    }
