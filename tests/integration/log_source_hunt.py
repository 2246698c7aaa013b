"""Reads the directory of a running broker while its cleaner and its retention are at work, and holds
every reading against what was written: `python -m tests.integration.log_source_hunt --seconds N`.

A compacted topic: offsets rise, and of each key the newest record is there, unless a newer one than
was read took its place. A topic with retention: no hole, or the sentence that retention came first.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.conftest import BrokerProcess
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.batch_query import BatchQuery
from kbroker.pipeline.logdir.planning.source_options import parse_options
from kbroker.pipeline.logdir.planning.split_reading import read_split

COMPACTED, RETAINED = "compacted", "retained"
_SETTINGS = (
    "replica.high.watermark.checkpoint.interval.ms=50",
    "log.cleaner.backoff.ms=50",
    "log.retention.check.interval.ms=200",
    "log.segment.delete.delay.ms=200",
)
_TOPICS = {
    COMPACTED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    RETAINED: {"retention.bytes": "60000"},
}
OVERTAKEN = "retention or a deletion of records came first"
_ACK_S = 0.3  # until what the directory already shows was confirmed to the producer, too

Row = tuple[int, bytes, bytes]  # offset, key, value


class Writer(threading.Thread):
    """Writes both topics until it is stopped; `written` are the confirmed records."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self.written: dict[tuple[str, int], dict[int, tuple[bytes, bytes]]] = defaultdict(dict)

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(0.01):
            for _ in range(50):
                number += 1
                key = b"k%d" % self._random.randrange(40)
                for topic in _TOPICS:
                    value = b"v%d" % number
                    self._producer.produce(topic, value, key, on_delivery=self._confirmed)
            self._producer.poll(0)
        self._producer.flush(20)

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def _confirmed(self, _error: object, message: Message) -> None:
        place = (str(message.topic()), int(message.partition() or 0))
        self.written[place][int(message.offset() or 0)] = (
            bytes(message.key() or b""),  # type: ignore[arg-type]
            bytes(message.value() or b""),  # type: ignore[arg-type]
        )


def create_topics(bootstrap: str) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(topic, 2, 1, config={"segment.bytes": "20000", **config})
        for topic, config in _TOPICS.items()
    ]
    for made in client.create_topics(topics).values():
        made.result()


def read(path: Path, topic: str, pause_s: float) -> dict[int, list[Row]]:
    """Rows by partition; what is planned is read `pause_s` later."""
    options = {"path": str(path), "topics": topic, "columns": "partition,offset,key,value"}
    query = BatchQuery(parse_options(options))
    plan = query.plan(real_disk())
    time.sleep(pause_s)
    found: dict[int, list[Row]] = defaultdict(list)
    for tasks in plan:
        for rows in read_split(real_disk(), tasks, query.reading):
            for row in rows.to_pylist():
                found[row["partition"]].append((row["offset"], row["key"], row["value"]))
    return found


def check(topic: str, rows: list[Row], written: dict[int, tuple[bytes, bytes]]) -> None:
    """AssertionError for what a reader of this topic must not see."""
    offsets = [offset for offset, _, _ in rows]
    assert offsets == sorted(set(offsets)), (topic, offsets)
    if topic == RETAINED:
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), offsets
    found = {key: offset for offset, key, _ in rows}
    newest = {key: offset for offset, (key, _) in sorted(written.items())}
    if topic == COMPACTED:
        lost = {k for k, o in newest.items() if o <= offsets[-1] and found.get(k) != o}
        assert not lost, [(key, newest[key], found.get(key)) for key in lost]
    wrong = [row for row in rows if written.get(row[0], row[1:]) != row[1:]]
    assert not wrong, wrong[:3]


def hunt(directory: Path, seconds: float, seed: int) -> Counter[str]:
    """How many readings of each topic were right, and how many retention overtook."""
    overrides = [part for setting in _SETTINGS for part in ("--override", setting)]
    broker = BrokerProcess(directory / "data", tuple(overrides))
    broker.start()
    counts: Counter[str] = Counter()
    generator = random.Random(seed)
    try:
        create_topics(broker.bootstrap)
        writer = Writer(broker.bootstrap, seed)
        writer.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for topic in _TOPICS:
                try:
                    found = read(broker.data, topic, generator.choice((0, 0.1, 0.4)))
                except PipelineError as error:
                    if OVERTAKEN not in str(error):
                        raise
                    counts["overtaken"] += 1
                    continue
                time.sleep(_ACK_S)
                for partition, rows in found.items():
                    check(topic, rows, dict(writer.written[topic, partition]))
                    counts[topic] += 1
                    counts["holes"] += rows[-1][0] + 1 - rows[0][0] - len(rows)
        writer.stop()
    finally:
        broker.stop()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        print(hunt(Path(directory), given.seconds, given.seed))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
