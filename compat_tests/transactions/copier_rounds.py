"""Clients copy a topic in transactions while brokers and copiers are killed again and again: those who
read what is committed see every record once and in order, and nothing waits longer than for a
transaction to end by time.

    python -m compat_tests.transactions.copier_rounds --rounds 100               (one broker)
    python -m compat_tests.transactions.copier_rounds --rounds 50 --cluster      (three, over ZooKeeper)

`--kind apache` does the same to Apache Kafka 3.9.2 (with `--cluster`) and 4.3.1. The copiers are a
chain: each but the first reads what another one committed and aborted.
"""

from __future__ import annotations

import argparse
import logging
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from compat_tests.clients.every_client import create_topic
from compat_tests.clients.writers import PARTITIONS, LibrdkafkaWriter
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import SETTINGS as REPLICATED
from compat_tests.cluster.replicas import await_in_sync, create
from compat_tests.conftest import BrokerProcess
from compat_tests.faults.kill_rounds import read_all
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.running.waiting import until
from compat_tests.transactions.copiers import (
    COPIERS,
    CommittedReader,
    Copier,
    Plan,
    first_difference,
)
from compat_tests.transactions.runner import warm_up

TIMEOUT_MS = 10_000
GRACE_S = 15.0  # beyond the time-out of a transaction; nothing may wait longer
_SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.num.partitions": "6",
}
ALONE = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_REPLICATED = {
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
STATE_LOG = "__transaction_state"

Fault = Callable[[random.Random], None]


class CopierRounds:
    """A writer, a chain of copiers and those who read the copies."""

    def __init__(
        self, bootstrap: str, kinds: Iterable[str], topics: list[str], seed: int, records_per_s: int
    ) -> None:
        self.topics = topics
        self.faults: Counter[str] = Counter()
        self.longest_wait_s = 0.0
        self._bootstrap = bootstrap
        self._writer = LibrdkafkaWriter(bootstrap, topics[0], records_per_s)
        self.copiers: list[Copier] = [
            COPIERS[kind](Plan(bootstrap, source, sink, TIMEOUT_MS, seed=seed))
            for kind, source, sink in zip(kinds, topics, topics[1:], strict=False)
        ]
        self.readers = [CommittedReader(bootstrap, topic) for topic in topics[1:]]

    def run(self, rounds: int, faults: dict[str, Fault], draw: random.Random) -> None:
        """As many faults as there are rounds, each under load; then everything is compared."""
        self.await_more()
        for number in range(1, rounds + 1):
            time.sleep(draw.uniform(0.2, 1.5))
            name = draw.choice(sorted(faults))
            faults[name](draw)
            self.faults[name] += 1
            self.await_more()
            if number % 10 == 0:
                print(f"{number} rounds: {self.told()}", flush=True)
        self._finish()

    def kill_copier(self, draw: random.Random) -> None:
        """End one in the middle of a transaction, which its next run aborts."""
        draw.choice(self.copiers).kill()

    def await_more(self) -> None:
        begin = time.monotonic()
        for reader in self.readers:
            seen = reader.count
            self._wait(lambda r=reader, s=seen: r.count > s, f"more is copied to {reader.topic}")  # type: ignore[misc]
        self.longest_wait_s = max(self.longest_wait_s, time.monotonic() - begin)
        assert self._writer.errors == [], self._writer.errors[:3]

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        try:
            until(condition, what, TIMEOUT_MS / 1000 + GRACE_S)
        except AssertionError:
            for copier in self.copiers:
                print(copier.plan.name, dict(copier.told), copier.troubles[-5:], flush=True)
            raise

    def _finish(self) -> None:
        self._writer.finish()
        written = [list(values) for values in read_all(self._bootstrap, self.topics[0]).values]
        total = sum(map(len, written))
        for reader in self.readers:
            while reader.count < total:
                seen = reader.count
                self._wait(lambda r=reader, s=seen: r.count > s, f"all is copied to {reader.topic}")  # type: ignore[misc]
        for copier in self.copiers:
            copier.stop()
        for reader in self.readers:
            reader.stop()
            assert reader.failures == [], reader.failures[:3]
            for partition in range(PARTITIONS):
                differs = first_difference(written[partition], reader.values[partition])
                assert not differs, f"{reader.topic}-{partition}: {differs}"

    def told(self) -> str:
        """All figures."""
        each = ", ".join(
            f"{copier.plan.name} {dict(copier.told)} ({len(copier.troubles)} errors)"
            for copier in self.copiers
        )
        return (
            f"{dict(self.faults)}; {[reader.count for reader in self.readers]} records copied; "
            f"{each}; the longest wait was {self.longest_wait_s:.1f} s"
        )


def topics_of(kinds: Iterable[str]) -> list[str]:
    """The source and a sink for each copier."""
    return ["written", *(f"copied-by-{kind}" for kind in kinds)]


def run_alone(
    directory: Path, rounds: int, *, kinds: list[str], kind: str = "kbroker", seed: int = 1,
    records_per_s: int = 300,
) -> CopierRounds:  # fmt: skip
    """One broker, which is killed and started again."""
    settings = _SETTINGS | ALONE
    broker: BrokerProcess | ApacheBroker
    if kind == "kbroker":
        options = [part for item in settings.items() for part in ("--override", "=".join(item))]
        broker = BrokerProcess(directory / "data", tuple(options))
    else:
        broker = ApacheBroker(directory / "data", settings=settings)
    broker.start()
    warm_up(broker.bootstrap)
    topics = topics_of(kinds)
    for topic in topics:
        create_topic(broker.bootstrap, topic, PARTITIONS)
    copying = CopierRounds(broker.bootstrap, kinds, topics, seed, records_per_s)

    def kill_broker(draw: random.Random) -> None:
        broker.stop(signal.SIGKILL)
        broker.start()

    # A broker dies three times as often as a copier.
    faults = {f"kill_broker_{n}": kill_broker for n in "abc"} | {"kill_copier": copying.kill_copier}
    try:
        copying.run(rounds, faults, random.Random(seed))
    finally:
        print(copying.told(), flush=True)
    assert kind != "kbroker" or "Traceback" not in broker.log_text(), broker.log_text()[-3000:]
    broker.stop()
    return copying


@contextmanager
def _three(directory: Path, kind: str) -> Iterator[Cluster]:
    settings = REPLICATED | _SETTINGS | _REPLICATED
    with Cluster(directory, shared_zookeeper(), [kind] * 3, settings, chroot="/copiers") as cluster:
        cluster.start()
        yield cluster


def run_cluster(
    directory: Path, rounds: int, *, kinds: list[str], kind: str = "kbroker", seed: int = 1,
    records_per_s: int = 300,
) -> CopierRounds:  # fmt: skip
    """Three brokers with three replicas of everything, one of which is killed at a time."""
    with _three(directory, kind) as cluster:
        topics = topics_of(kinds)
        for number, topic in enumerate(topics):
            leaders = [(number + n) % 3 + 1 for n in range(PARTITIONS)]
            create(cluster, topic, *([b, b % 3 + 1, (b + 1) % 3 + 1] for b in leaders))
        warm_up(cluster.bootstraps[0])
        copying = CopierRounds(cluster.bootstrap, kinds, topics, seed, records_per_s)
        kept = [*topics, STATE_LOG, "__consumer_offsets"]

        def kill_broker(draw: random.Random) -> None:
            victim = draw.choice(cluster.ids)
            cluster.kill(victim)
            if draw.random() < 0.7:  # else it is back before others may have noticed
                copying.await_more()
            cluster.start(victim)
            await_in_sync(cluster, *kept)

        faults = {f"kill_broker_{n}": kill_broker for n in "abc"} | {
            "kill_copier": copying.kill_copier
        }
        try:
            copying.run(rounds, faults, random.Random(seed))
        finally:
            print(copying.told(), flush=True)
        for broker in cluster.brokers.values():
            assert kind != "kbroker" or "Traceback" not in broker.log_text()
        cluster.stop()
        return copying


def main() -> None:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.transactions.copier_rounds")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--copiers", nargs="+", choices=list(COPIERS), default=list(COPIERS))
    parser.add_argument("--kind", choices=("kbroker", "apache"), default="kbroker")
    parser.add_argument("--records-per-s", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="where data and logs are left")
    options = parser.parse_args()
    logging.disable()  # what clients say while they try again
    with tempfile.TemporaryDirectory(prefix="copier-rounds-") as temporary:
        play = run_cluster if options.cluster else run_alone
        copying = play(
            options.keep or Path(temporary), options.rounds, kinds=options.copiers,
            kind=options.kind, seed=options.seed, records_per_s=options.records_per_s,
        )  # fmt: skip
    print(
        f"{copying.faults.total()} faults (--seed {options.seed}): every record was read once and in "
        f"order, and nothing waited for more than {copying.longest_wait_s:.1f} s"
    )


if __name__ == "__main__":
    main()
