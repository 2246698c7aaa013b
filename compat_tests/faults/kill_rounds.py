"""A broker that is killed again and again under the load of real clients, and what must be true
afterwards: every acknowledged record at its place, the order of each producer kept, no record of an
idempotent producer twice.

    python -m compat_tests.faults.kill_rounds --rounds 200

Every second kill hits a broker that is still starting, that is, recovering from the one before.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

from compat_tests.clients.every_client import create_topic
from compat_tests.clients.program_writers import GoWriter, JavaWriter, NodeWriter
from compat_tests.clients.writers import (
    NOTHING,
    PARTITIONS,
    KafkaPythonWriter,
    LibrdkafkaWriter,
    Places,
    Writer,
)
from compat_tests.conftest import BrokerProcess

WRITERS: dict[str, Callable[[str, str, int], Writer]] = {
    "librdkafka": LibrdkafkaWriter,
    "java": JavaWriter,
    "kafka-python": KafkaPythonWriter,
    "go": GoWriter,
    "node": NodeWriter,
}


def kill(broker: BrokerProcess) -> None:
    """SIGKILL, and wait until the process is gone."""
    assert broker.process is not None
    broker.process.kill()
    broker.process.wait(10)
    assert broker.process.stdout is not None
    broker.process.stdout.close()


def read_all(bootstrap: str, topic: str, *, has_gaps: bool = False) -> Places:
    """Everything in a topic that is not of an aborted transaction; with `has_gaps`, transactions or
    compaction may have left offsets without a record.
    """
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False,
         "check.crcs": True, "enable.partition.eof": True, "log_level": 0}
    )  # fmt: skip
    partitions = [TopicPartition(topic, number, 0) for number in range(PARTITIONS)]
    wanted = sum(consumer.get_watermark_offsets(partition)[1] for partition in partitions)
    consumer.assign(partitions)
    found = Places()
    ended: set[int] = set()
    deadline = time.monotonic() + 40 + wanted / 20_000
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=0.5):
            error = message.error()
            if error is None:
                found.put(message.partition(), message.offset(), int(message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
    consumer.close()
    assert len(ended) == PARTITIONS, f"{topic} was read to the end in {ended} only"
    assert has_gaps or found.count == wanted, f"{found.count} of {wanted} records of {topic}"
    return found


def check(writer: Writer, found: Places) -> None:
    """AssertionError unless all that was acknowledged is there, in order, and not doubled."""
    assert writer.errors == [], (writer.topic, writer.errors[:3])
    for partition in range(PARTITIONS):
        acknowledged, read = writer.acknowledged.values[partition], found.values[partition]
        lost = [
            (offset, value)
            for offset, value in enumerate(acknowledged)
            if value != NOTHING and (offset >= len(read) or read[offset] != value)
        ]
        assert not lost, f"{writer.topic}-{partition} lost {len(lost)}, first {lost[:3]}"
        order = [value for value in read if value != NOTHING]
        if not writer.is_idempotent:
            order = list(dict.fromkeys(order))
        assert all(a < b for a, b in pairwise(order)), writer.topic


def make_writers(bootstrap: str, records_per_s: int, names: list[str]) -> list[Writer]:
    """One writer of each kind named, each with a topic of its own."""
    writers: list[Writer] = []
    for name in names:
        topic = f"kill-{name}"
        create_topic(bootstrap, topic, PARTITIONS)
        writers.append(WRITERS[name](bootstrap, topic, records_per_s))
    return writers


def kill_and_start(broker: BrokerProcess, draw: random.Random, *, while_starting: bool) -> None:
    """One round: kill, once more while it starts if asked for, and start for good."""
    kill(broker)
    if while_starting:
        broker.launch()
        time.sleep(draw.uniform(0.05, 0.5))
        kill(broker)
    broker.start()


def run(rounds: int, records_per_s: int, seed: int, names: list[str]) -> None:
    """The long form, with a line every ten rounds."""
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="kill-rounds-") as directory:
        options = ("--override", "log.segment.bytes=4194304", "--override",
                   "log.flush.offset.checkpoint.interval.ms=2000")  # fmt: skip
        broker = BrokerProcess(Path(directory) / "data", options)
        broker.start()
        writers = make_writers(broker.bootstrap, records_per_s, names)
        idle_rounds = acknowledged = 0
        for number in range(rounds):
            time.sleep(draw.uniform(0.3, 1.5))
            before, acknowledged = acknowledged, sum(w.acknowledged.count for w in writers)
            idle_rounds += acknowledged == before
            kill_and_start(broker, draw, while_starting=number % 2 == 1)
            if number % 10 == 9:
                print(f"{number + 1} rounds, {acknowledged:,} acknowledged", flush=True)
        for writer in writers:
            writer.finish()
        for writer in writers:
            check(writer, read_all(broker.bootstrap, writer.topic))
        total = sum(writer.acknowledged.count for writer in writers)
        assert "Traceback" not in broker.log_text()
        assert broker.stop() == 0
        print(
            f"{rounds} rounds ({rounds + rounds // 2} kills, {idle_rounds} without load), "
            f"{total:,} acknowledged, 0 lost, order kept, 0 doubled by "
            f"{', '.join(w.topic for w in writers if w.is_idempotent)}"
        )


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--records-per-s", type=int, default=3_000, help="of each client")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default="librdkafka,kafka-python,java")
    options = parser.parse_args()
    with suppress(KeyboardInterrupt):
        run(options.rounds, options.records_per_s, options.seed, options.clients.split(","))
        return
    sys.exit(130)


if __name__ == "__main__":
    main()
