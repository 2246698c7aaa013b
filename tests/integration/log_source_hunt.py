"""Reads the directory of a broker while its cleaner and its retention are at work, and while it is
stopped, killed and started again; holds every reading against what was written:
`python -m tests.integration.log_source_hunt --seconds N --restart-every S`.

A compacted topic: offsets rise, and of each key the newest record is there, unless a newer one than
was read took its place. A topic with retention: no hole, or the sentence that retention came first;
a stream of it gets each offset once.
"""

from __future__ import annotations

import argparse
import random
import signal
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.conftest import BrokerProcess
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.batch_query import BatchQuery, Splits, reading_of
from kbroker.pipeline.logdir.planning.log_stream import LogStream
from kbroker.pipeline.logdir.planning.source_options import SourceOptions, parse_options
from kbroker.pipeline.logdir.planning.split_reading import SplitReading, read_split

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
HALF_CLEANED = "was replacing others when its broker died"
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

    def _confirmed(self, error: object, message: Message) -> None:
        if error is not None:
            return  # the broker was ended; whether it is in the log nobody knows
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


class Restarts(threading.Thread):
    """Ends the broker again and again, one way or the other, and starts it after a while."""

    def __init__(self, broker: BrokerProcess, every_s: float, seed: int) -> None:
        super().__init__(daemon=True)
        self._broker = broker
        self._every_s = every_s
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stopping.wait(self._every_s):
            self._broker.stop(self._random.choice((signal.SIGTERM, signal.SIGKILL)))
            time.sleep(self._random.choice((0, 0.3)))
            self._broker.start()
            self.count += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Follower:
    """A stream of the topic with retention, which is made anew now and then as by a restart."""

    def __init__(self, path: Path, generator: random.Random) -> None:
        self._wanted = wanted(path, RETAINED)
        self._random = generator
        self._begin()

    def _begin(self) -> None:
        self._stream = LogStream(self._wanted, real_disk())
        self._position = dict(self._stream.initial())

    def step(self) -> int:
        """Read a batch and check it; how many records it had."""
        if self._random.random() < 0.2:
            self._stream = LogStream(self._wanted, real_disk())
        try:
            end = self._stream.latest_from(self._position, self._random.choice((None, 50, 500)))
            plan = self._stream.plan(self._position, end)
            time.sleep(self._random.choice((0, 0.1)))
            found = rows_of(plan, reading_of(self._wanted))
        except PipelineError as error:
            if OVERTAKEN in str(error):
                self._begin()
            raise
        for (_, partition), end_offset in end.items():
            start = self._position.get(TopicPartition(RETAINED, partition), 0)
            offsets = [offset for offset, _, _ in found[partition]]
            assert offsets == list(range(start, end_offset)), (partition, start, end_offset)
        self._position = dict(end)
        return sum(map(len, found.values()))


def wanted(path: Path, topic: str) -> SourceOptions:
    options = {"path": str(path), "topics": topic, "columns": "partition,offset,key,value"}
    return parse_options(options)


def rows_of(plan: Splits, reading: SplitReading) -> dict[int, list[Row]]:
    """Rows by partition."""
    found: dict[int, list[Row]] = defaultdict(list)
    for tasks in plan:
        for rows in read_split(real_disk(), tasks, reading):
            for row in rows.to_pylist():
                found[row["partition"]].append((row["offset"], row["key"], row["value"]))
    return found


def read(path: Path, topic: str, pause_s: float) -> dict[int, list[Row]]:
    """Rows by partition; what is planned is read `pause_s` later."""
    query = BatchQuery(wanted(path, topic))
    plan = query.plan(real_disk())
    time.sleep(pause_s)
    return rows_of(plan, query.reading)


def check(topic: str, rows: list[Row], written: dict[int, tuple[bytes, bytes]]) -> None:
    """AssertionError for what a reader of this topic must not see."""
    offsets = [offset for offset, _, _ in rows]
    assert offsets == sorted(set(offsets)), (topic, offsets)
    if topic == RETAINED:
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))), offsets
    found = {key: offset for offset, key, _ in rows}
    newest = {key: offset for offset, (key, _) in sorted(written.items())}
    if topic == COMPACTED:
        # A broker that was ended may have written what it did not confirm: newer ones than these.
        lost = {k for k, o in newest.items() if o <= offsets[-1] and found.get(k, -1) < o}
        assert not lost, [(key, newest[key], found.get(key)) for key in lost]
    wrong = [row for row in rows if written.get(row[0], row[1:]) != row[1:]]
    assert not wrong, (
        topic,
        [(row, written.get(row[0])) for row in wrong[:3]],
        len(wrong),
        len(rows),
    )


def hunt(
    directory: Path,
    seconds: float,
    seed: int,
    restart_every_s: float = 0,
    until_met: tuple[str, ...] = (),
) -> Counter[str]:
    """How many readings of each topic were right, and what kept others from being had. It goes on
    until what is in `until_met` has been met, too.
    """
    overrides = [part for setting in _SETTINGS for part in ("--override", setting)]
    broker = BrokerProcess(directory / "data", tuple(overrides))
    broker.start()
    counts: Counter[str] = Counter()
    generator = random.Random(seed)
    restarts = Restarts(broker, restart_every_s or 2 * seconds, seed)
    try:
        create_topics(broker.bootstrap)
        writer = Writer(broker.bootstrap, seed)
        writer.start()
        follower = Follower(broker.data, generator)
        restarts.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end or not all(counts[each] for each in until_met):
            for topic in _TOPICS:
                with _counted(counts):
                    _read_once(broker.data, topic, generator, writer, counts)
            with _counted(counts):
                counts["streamed"] += follower.step()
        restarts.stop()
        writer.stop()
    finally:
        broker.stop()
    counts["restarts"] = restarts.count
    return counts


def _read_once(
    path: Path, topic: str, generator: random.Random, writer: Writer, counts: Counter[str]
) -> None:
    found = read(path, topic, generator.choice((0, 0.1, 0.4)))
    time.sleep(_ACK_S)
    for partition, rows in found.items():
        check(topic, rows, dict(writer.written[topic, partition]))
        counts[topic] += 1
        counts["holes"] += rows[-1][0] + 1 - rows[0][0] - len(rows)


@contextmanager
def _counted(counts: Counter[str]) -> Iterator[None]:
    """Let pass what a reader may be told here."""
    try:
        yield
    except PipelineError as error:
        reason = next((each for each in (OVERTAKEN, HALF_CLEANED) if each in str(error)), None)
        if reason is None:
            raise
        counts[reason] += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--restart-every", type=float, default=0, help="seconds; 0: never")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        counts = hunt(Path(directory), given.seconds, given.seed, given.restart_every)
        print(dict(counts))  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
