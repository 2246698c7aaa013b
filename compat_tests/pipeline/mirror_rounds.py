"""A mirror, killed with -9 again and again, as the brokers on both of its sides are: in the end every
record is in the copy exactly once and in order, the map of offsets is right, and groups read on.

    python -m compat_tests.pipeline.mirror_rounds --records 200000 --kills 20 --broker-kills 10

`--source` and `--target` are `kbroker` or `kafka` (Apache Kafka 3.9.2, KRaft). The second half of the
records is written while the mirror and the brokers are killed.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.conftest import BrokerProcess
from compat_tests.pipeline.hunt_home import hunt_home
from compat_tests.pipeline.plan_writer import PlanWriter, check_end_offsets, create_topics
from compat_tests.pipeline.planned_records import TOPICS, PlannedRecord, RecordPlan
from compat_tests.running.apache_directories import ApacheBroker

_APACHE = "3.9.2"
_GROUP = "readers"
_MAP = "kbroker-mirror-offsets"
_MARK = "kbroker-mirror-source"
_SAMPLES = 1_000
_LAST_RUN_S = 900
_PAUSES_S = (0.5, 12.0)  # a mirror takes a few seconds to start
_OUTAGES_S = (0.0, 3.0)

AnyBroker = BrokerProcess | ApacheBroker
Place = tuple[str, int]
Copied = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@dataclass(frozen=True, kw_only=True)
class MirrorRounds:
    """What a run of this module does."""

    records: int
    kills: int
    broker_kills: int
    source: str  # kbroker or kafka
    target: str
    seed: int


class MirrorProcess:
    """`kbroker pipeline mirror`, once or for ever, with one checkpoint."""

    def __init__(self, source: str, target: str, home: Path) -> None:
        self._log = home / "mirror.log"
        self._command = [
            sys.executable, "-m", "kbroker.cli", "pipeline", "mirror", "--from", source,
            "--bootstrap", target, "--topics", ",".join(TOPICS),
            "--checkpoint", str(home / "checkpoint"),
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *how: str) -> None:
        """Begin, or go on."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([*self._command, *how], stdout=log, stderr=log)

    def keep_running(self) -> None:
        """Start it where it has ended by itself, as it may before its first whole round."""
        if self._process is None or self._process.poll() is not None:
            self.start("--every", "500ms")

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Its exit code."""
        assert self._process is not None
        return self._process.wait(_LAST_RUN_S)

    def said(self) -> str:
        """Return what all runs have printed."""
        return self._log.read_text()


def run(rounds: MirrorRounds, home: Path) -> None:
    """Write, copy, kill and compare; AssertionError with the first fault."""
    plan = RecordPlan(rounds.seed, rounds.records)
    begun_s = time.monotonic()
    with (
        _broker(rounds.source, home / "source" / "data") as source,
        _broker(rounds.target, home / "target" / "data") as target,
    ):
        create_topics(source.bootstrap)
        writer = PlanWriter(source.bootstrap, plan)
        writer.write(0.5)
        writer.write_slowly(7.0 * (rounds.kills + rounds.broker_kills))
        mirror = MirrorProcess(source.bootstrap, target.bootstrap, home)
        reader = _Reader(source.bootstrap, plan)
        _kill_again_and_again(rounds, mirror, source, target, reader)
        writer.finish()
        check_end_offsets(source.bootstrap, plan)
        mirror.start("--once")
        assert mirror.wait() == 0, mirror.said()[-3000:]
        assert "Traceback" not in mirror.said(), mirror.said()[-3000:]
        found = check_copy(source.bootstrap, target.bootstrap, plan, reader.places, rounds.seed)
    print(
        f"{rounds.records:,} records from {rounds.source} to {rounds.target}, {rounds.kills} kills "
        f"of the mirror and {rounds.broker_kills} of brokers: each once and in order; {found}; "
        f"{time.monotonic() - begun_s:.0f} s",
        flush=True,
    )


def _kill_again_and_again(
    rounds: MirrorRounds,
    mirror: MirrorProcess,
    source: AnyBroker,
    target: AnyBroker,
    reader: _Reader,
) -> None:
    draw = random.Random(rounds.seed)
    events = ["mirror"] * rounds.kills + ["broker"] * rounds.broker_kills
    draw.shuffle(events)
    for number, event in enumerate(events, 1):
        mirror.keep_running()
        time.sleep(draw.uniform(*_PAUSES_S))
        if event == "mirror":
            mirror.kill()
            print(f"{number}: mirror killed", flush=True)
        else:
            broker = draw.choice((source, target))
            broker.stop(signal.SIGKILL)
            time.sleep(draw.uniform(*_OUTAGES_S))
            broker.start()
            which = "source" if broker is source else "target"
            print(f"{number}: broker of the {which} killed and started", flush=True)
        reader.move(draw)
    mirror.keep_running()
    mirror.kill()


class _Reader:
    """A group of the source that has no members while its offsets move on."""

    def __init__(self, bootstrap: str, plan: RecordPlan) -> None:
        self.places: dict[Place, int] = {}
        self._bootstrap, self._plan = bootstrap, plan

    def move(self, draw: random.Random) -> None:
        """Commit new places in some partitions, never back."""
        chosen = draw.sample(self._plan.partitions(), 3)
        places = {
            each: draw.randint(self.places.get(each, 0), self._plan.count(*each) // 2)
            for each in chosen
        }
        wanted = [TopicPartition(*each, offset) for each, offset in places.items()]
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": _GROUP})
        committed = consumer.commit(offsets=wanted, asynchronous=False)
        consumer.close()
        assert committed is not None
        assert all(each.error is None for each in committed), committed
        self.places |= places


def check_copy(
    source: str, target: str, plan: RecordPlan, places: dict[Place, int], seed: int
) -> str:
    """Compare all records, samples of the map, and groups; AssertionError with the first fault."""
    mark = (_MARK, AdminClient({"bootstrap.servers": source}).list_topics(timeout=30).cluster_id)
    offsets: dict[Place, list[int]] = {}  # of the target, by offset of the source
    for place in plan.partitions():
        copied = _copied(target, place)
        offsets[place] = [record[0] for record in copied]
        assert len(copied) == plan.count(*place), (place, len(copied), plan.count(*place))
        for planned, record in zip(plan.stretch(*place, 0, len(copied)), copied, strict=True):
            assert record[1:] == _expected(planned, mark), (place, planned, record)
    pairs = _pairs(target, mark[1])
    draw = random.Random(seed)
    for _ in range(_SAMPLES):
        place = draw.choice(plan.partitions())
        offset = draw.randrange(plan.count(*place))
        assert pairs[place][offset] == offsets[place][offset], (place, offset)
    there = _committed(target, plan.partitions())
    for place, offset in places.items():
        assert there[place] == offsets[place][offset], (place, offset, there[place])
    return f"{_SAMPLES:,} samples of the map and {len(places)} places of a group are right"


def _expected(planned: PlannedRecord, mark: tuple[str, str]) -> tuple[Any, ...]:
    headers = (*(planned.headers or ()), (mark[0], mark[1].encode()))
    return planned.timestamp_ms, planned.key, planned.value, headers


def _copied(bootstrap: str, place: Place) -> list[Copied]:
    return [
        (
            message.offset(),
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple(message.headers() or ()),
        )
        for message in _messages(bootstrap, place)
    ]


def _messages(bootstrap: str, place: Place) -> Iterator[Any]:
    """All that is committed."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(*place, 0)])
    while True:
        message = consumer.poll(60.0)
        assert message is not None, f"no next record of {place}"
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            break
        yield message
    consumer.close()


def _pairs(bootstrap: str, cluster_id: str) -> dict[Place, dict[int, int]]:
    """Offsets of the target by offset of the source, as the map has them."""
    found: dict[Place, dict[int, int]] = {}
    for message in _messages(bootstrap, (_MAP, 0)):
        key = json.loads(message.key())
        if key["source"] != cluster_id or message.value() is None:
            continue
        known = found.setdefault((key["topic"], key["partition"]), {})
        for source_offset, target_offset, records in json.loads(message.value())["runs"]:
            known |= {source_offset + at: target_offset + at for at in range(records)}
    return found


def _committed(bootstrap: str, places: list[Place]) -> dict[Place, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": _GROUP})
    found = consumer.committed([TopicPartition(*place) for place in places], timeout=30)
    consumer.close()
    return {(each.topic, each.partition): each.offset for each in found}


@contextmanager
def _broker(kind: str, data: Path) -> Iterator[AnyBroker]:
    broker: AnyBroker
    broker = ApacheBroker(data, version=_APACHE) if kind == "kafka" else BrokerProcess(data)
    broker.start()
    try:
        yield broker
        if isinstance(broker, BrokerProcess):
            assert "Traceback" not in broker.log_text(), broker.log_text()[-3000:]
    finally:
        broker.stop()


def main() -> None:
    """Parse the options and run; what was written stays where a fault was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--broker-kills", type=int, default=3)
    parser.add_argument("--source", choices=("kbroker", "kafka"), default="kbroker")
    parser.add_argument("--target", choices=("kbroker", "kafka"), default="kbroker")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with hunt_home("mirror-rounds") as home:
        run(MirrorRounds(**vars(options)), home)


if __name__ == "__main__":
    main()
