"""Kafka Streams with exactly_once_v2: a program with a store and a join is killed and started again,
and so is its broker; every step of every count and every joined line is there once, and in order.

    python -m compat_tests.frameworks.streams_rounds --rounds 40

Every second round kills the broker. `--kind apache` does the same to Apache Kafka 4.3.1.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.java_worker import LOGGER, program_command
from compat_tests.frameworks.lines import KEYS, write
from compat_tests.frameworks.worker import Worker
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.apache_kafka import NEWEST
from compat_tests.running.prerequisites import maven_jars

SOURCE, TABLE, COUNTS, JOINED, APPLICATION = "lines", "names", "counts", "joined", "exactly-once"
PARTITIONS = 3
LINES = 40  # of each round
TIMEOUT_S = 90.0
_SETTINGS = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class _Committed:
    """All that is committed in a topic, by key in the order of offsets."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: dict[str, list[str]] = defaultdict(list)
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "rounds", "enable.auto.commit": False,
             "isolation.level": "read_committed", "log_level": 0, "reconnect.backoff.max.ms": 200}
        )  # fmt: skip
        self._consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    def until(self, count: int) -> float:
        """Read until there is that much; how long nothing came, in seconds."""
        longest, last = 0.0, time.monotonic()
        while self.count < count:
            for message in self._consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    key, value = message.key() or b"", message.value() or b""
                    self.values[key.decode()].append(value.decode())
                    longest, last = max(longest, time.monotonic() - last), time.monotonic()
            waited_s = time.monotonic() - last
            assert waited_s < TIMEOUT_S, f"{self.count} of {count}, nothing for {waited_s:.0f} s"
        return longest

    def close(self) -> None:
        self._consumer.close()


def run(
    directory: Path, rounds: int, kind: str = "kbroker", seed: int = 1, version: str = NEWEST
) -> str:
    """Kill as many times as there are rounds; what was seen."""
    broker: BrokerProcess | ApacheBroker
    if kind == "kbroker":
        options = [part for item in _SETTINGS.items() for part in ("--override", "=".join(item))]
        broker = BrokerProcess(directory / "data", tuple(options))
    else:
        broker = ApacheBroker(directory / "data", settings=_SETTINGS)
    broker.start()
    for topic in (SOURCE, TABLE, COUNTS, JOINED):
        create_topic(broker.bootstrap, topic, PARTITIONS)
    write(broker.bootstrap, TABLE, (f"name-{n}" for n in range(KEYS)))
    jars = maven_jars(
        f"kafka-streams-{version}", f"org.apache.kafka:kafka-streams:{version}",
        f"{LOGGER}:1.7.36",
    )  # fmt: skip
    names = (SOURCE, TABLE, COUNTS, JOINED, APPLICATION, str(directory / "state"))
    command = program_command("ExactlyOnce", jars, directory, broker.bootstrap, *names)
    worker = Worker(command=command, log=directory / "worker.log")
    worker.start()
    try:
        return _rounds(broker, worker, rounds, random.Random(seed))
    finally:
        worker.kill()
        broker.stop(signal.SIGKILL)


def _rounds(
    broker: BrokerProcess | ApacheBroker, worker: Worker, rounds: int, draw: random.Random
) -> str:
    counts, joined = _Committed(broker.bootstrap, COUNTS), _Committed(broker.bootstrap, JOINED)
    written: list[str] = []
    longest_s = 0.0
    for number in range(rounds + 1):
        more = [f"word-{draw.randrange(20)} line-{len(written) + n}" for n in range(LINES)]
        write(broker.bootstrap, SOURCE, more)
        written += more
        if number:  # the first lines are waited for by a program that nobody disturbs
            time.sleep(draw.uniform(0, 1.5))
            _disturb(broker, worker, number)
        if not number or number % 5 == 0 or number == rounds:
            longest_s = max(longest_s, joined.until(len(written)), counts.until(2 * len(written)))
        if number % 10 == 0:
            print(f"{number} rounds, {len(written)} lines", flush=True)
    _check(written, counts, joined)
    counts.close()
    joined.close()
    return (
        f"{rounds - rounds // 2} kills of the program and {rounds // 2} of the broker: "
        f"{counts.count} steps of counts and {joined.count} joined lines, each once and in order; "
        f"nothing came for {longest_s:.1f} s at most"
    )


def _disturb(broker: BrokerProcess | ApacheBroker, worker: Worker, number: int) -> None:
    if number % 2:
        worker.kill()
        worker.start()
    else:
        broker.stop(signal.SIGKILL)
        broker.start()


def _check(written: list[str], counts: _Committed, joined: _Committed) -> None:
    words = Counter(itertools.chain.from_iterable(line.split() for line in written))
    expected = {word: [f"{word}={n}" for n in range(1, count + 1)] for word, count in words.items()}
    differing = {w: (counts.values.get(w), e) for w, e in expected.items() if counts.values[w] != e}
    assert not differing, f"{len(differing)} counts differ: {list(differing.items())[:2]}"
    assert counts.values.keys() == expected.keys()
    by_key: dict[str, list[str]] = defaultdict(list)
    for number, line in enumerate(written):
        key = number % LINES % KEYS
        by_key[f"key-{key}"].append(f"{line} of name-{key}")
    assert joined.values == by_key


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.frameworks.streams_rounds")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--kind", choices=("kbroker", "apache"), default="kbroker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streams-rounds-") as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(exist_ok=True)
        print(run(directory, options.rounds, options.kind, options.seed))


if __name__ == "__main__":
    main()
