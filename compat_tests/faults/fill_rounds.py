"""A small disk that is filled and freed again and again under a running broker: nothing that was
acknowledged is lost, reads go on while it is full, writes go on when it is not, without a restart.

    python -m compat_tests.faults.fill_rounds --rounds 50      (needs the right to mount a tmpfs)

In some rounds the broker is stopped, or killed, while the disk is full, and started again.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess

TOPIC = "filled"
PARTITIONS = 2
DISK_MB = 24
ROOM_TO_START_BYTES = 100_000

Place = tuple[int, int]  # partition, offset


class MountError(Exception):
    """This machine gives no small disk."""


@contextmanager
def small_disk(path: Path, megabytes: int = DISK_MB) -> Iterator[Path]:
    """A tmpfs of that size at `path`."""
    path.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0 or mount(path, f"size={megabytes}m") != 0:
        raise MountError("a volume of limited size needs Linux and the right to mount")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=False)


def mount(path: Path, options: str) -> int:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    return subprocess.run(command, check=False, capture_output=True).returncode


class FillRounds:
    """One broker over one small disk. `run` raises AssertionError at the first broken promise."""

    def __init__(self, disk: Path, seed: int = 0) -> None:
        self.disk = disk
        self.random = random.Random(seed)
        self.broker = BrokerProcess(
            disk / "data",
            ("--override", "log.segment.bytes=300000", "--override", "kbroker.flush=acks-all"),
        )
        self.acknowledged: dict[Place, int] = {}
        self.refused = 0
        self.restarts = 0
        self.topics_refused = 0
        self._number = 0

    def run(self, rounds: int) -> None:
        """Fill and free so many times, and look at everything at the end."""
        self.broker.start()
        create_topic(self.broker.bootstrap, TOPIC, PARTITIONS)
        for number in range(rounds):
            self._round(number)
        self._restart(kill=False)
        self.check_reads()
        assert self.broker.stop() == 0
        said = self.broker.log_text()
        assert "Traceback" not in said, said[-3000:]
        assert "offline" not in said, said[-3000:]

    def _round(self, number: int) -> None:
        self._fill(self.random.choice((0, 0, 5_000, 60_000, 300_000)))
        refused = self._produce(12, timeout_ms=600)
        self.refused += refused
        self.check_reads()
        if number % 5 == 1:
            self._create_while_full(f"late-{number}")
        if number % 4 == 3:
            self._restart(kill=number % 8 == 7)
            self.check_reads()
        (self.disk / "filler").unlink()
        assert self._produce(8, timeout_ms=20_000) == 0, self.broker.log_text()[-3000:]
        if number % 5 == 1:
            create_topic(self.broker.bootstrap, f"again-{number}", 1)

    def _fill(self, leave_bytes: int) -> None:
        with (self.disk / "filler").open("wb", buffering=0) as filler:
            while True:
                volume = os.statvfs(self.disk)
                surplus = volume.f_bavail * volume.f_frsize - leave_bytes
                if surplus <= 0:
                    return
                try:
                    filler.write(bytes(min(surplus, 1 << 20)))
                except OSError:
                    return

    def _produce(self, count: int, timeout_ms: int) -> int:
        """Send records; how many were refused for good."""
        refused = 0

        def delivered(error: ClientError | None, message: Message) -> None:
            nonlocal refused
            if error is not None:
                refused += 1
                return
            place = message.partition(), message.offset()
            assert place not in self.acknowledged, place
            self.acknowledged[place] = int(message.value()[:8])

        producer = Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "acks": "all",
                "linger.ms": 0,
                "retry.backoff.ms": 50,
                "message.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        for _ in range(count):
            self._number += 1
            size = self.random.choice((10, 500, 4_000, 30_000))
            value = b"%08d" % self._number + self.random.randbytes(size)
            partition = self.random.randrange(PARTITIONS)
            producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(60) == 0
        return refused

    def _create_while_full(self, name: str) -> None:
        """The metadata may still fit where the log does not: it is made later then."""
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        asked = admin.create_topics([NewTopic(name, 1)], operation_timeout=1, request_timeout=5)
        try:
            asked[name].result(20)
        except KafkaException:
            self.topics_refused += 1

    def _restart(self, *, kill: bool) -> None:
        """With a little room for the cluster's metadata, as an operator would make it."""
        assert self.broker.process is not None
        filler = self.disk / "filler"
        if filler.exists():
            os.truncate(filler, max(0, filler.stat().st_size - ROOM_TO_START_BYTES))
        if kill:
            self.broker.process.kill()
            self.broker.process.wait(30)
        else:
            assert self.broker.stop() == 0
        self.broker.start()
        self.restarts += 1

    def check_reads(self) -> None:
        """Every acknowledged record is at its place."""
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "reader", "log_level": 0,
             "enable.auto.commit": False}
        )  # fmt: skip
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        found: dict[Place, int] = {}
        idle = 0
        while idle < 20 and not self.acknowledged.keys() <= found.keys():
            messages = consumer.consume(500, timeout=0.5)
            idle = 0 if messages else idle + 1
            for message in messages:
                assert message.error() is None, message.error()
                found[message.partition(), message.offset()] = int(message.value()[:8])
        consumer.close()
        missing = {
            place: value for place, value in self.acknowledged.items() if found.get(place) != value
        }
        assert not missing, (len(missing), sorted(missing)[:5], self.broker.log_text()[-3000:])


def main() -> None:
    """Run the rounds and say what came of them."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.faults.fill_rounds")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        small_disk(Path(directory) / "small") as disk,
    ):
        rounds = FillRounds(disk, options.seed)
        try:
            rounds.run(options.rounds)
        finally:
            if rounds.broker.process is not None and rounds.broker.process.poll() is None:
                rounds.broker.process.kill()
        print(
            f"{options.rounds} rounds: {len(rounds.acknowledged)} acknowledged and found, "
            f"{rounds.refused} refused, {rounds.topics_refused} topics refused, "
            f"{rounds.restarts} restarts while full, 0 lost"
        )


if __name__ == "__main__":
    main()
