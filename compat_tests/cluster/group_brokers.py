"""The brokers of a hunt among groups: one of kbroker, several over a ZooKeeper, or Apache Kafka 4.3.1
to compare with, all with sessions short enough for a hunt.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compat_tests.clients.every_client import create_topic
from compat_tests.cluster.group_ledger import GROUP, SESSION_S, TOPIC, Ledger
from compat_tests.cluster.processes import Cluster
from compat_tests.commands.command_line import run
from compat_tests.conftest import BrokerProcess
from compat_tests.running import apache_kafka
from compat_tests.running.shared_zookeeper import shared_zookeeper
from compat_tests.wire.wire_client import FIND_COORDINATOR

_SETTINGS = {
    "group.consumer.session.timeout.ms": f"{SESSION_S * 1000}",
    "group.consumer.min.session.timeout.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
_REPLICATED = {"offsets.topic.replication.factor": "3", "default.replication.factor": "3"}
_AWAY_S = 5  # a broker, when it is killed


class Brokers:
    """A broker, or several over a ZooKeeper."""

    def __init__(self, count: int, directory: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._cluster: Cluster | None = None
        if count == 1:
            words = [part for each in _SETTINGS.items() for part in ("--override", "=".join(each))]
            self._alone = BrokerProcess(directory / "data", ("--log-level", "info", *words))
            self._alone.start()
            self.bootstrap = self._alone.bootstrap
            return
        self._cluster = Cluster(
            directory, shared_zookeeper(), ["kbroker"] * count, _REPLICATED | _SETTINGS,
            chroot=f"/groups-{os.getpid()}",
        )  # fmt: skip
        self._cluster.start()
        self.bootstrap = self._cluster.bootstrap
        raised = run("cluster", "features", "--set", "group.version=1", bootstrap=self.bootstrap)
        assert raised.code == 0, raised

    def kill(self) -> str:
        """kill -9 the coordinator of the group, and start it again."""
        if self._cluster is None:
            self._alone.stop(signal.SIGKILL)
            self._alone.start()
            return "kill -9 of the broker"
        number = self._coordinator(self._cluster)
        self._cluster.kill(number)
        time.sleep(_AWAY_S)
        self._cluster.start(number)
        return f"kill -9 of broker {number}, the coordinator"

    def _coordinator(self, cluster: Cluster) -> int:
        """Another broker at a moment when there is none."""
        with cluster.wire(self._random.choice(cluster.ids)) as wire:
            found = int(wire.call(FIND_COORDINATOR, 3, key=GROUP, key_type=0).node_id)
        return found if found > 0 else self._random.choice(cluster.ids)

    def close(self) -> None:
        if self._cluster is None:
            self._alone.stop()
        else:
            self._cluster.close()


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that hunts among groups have in common."""
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--target", default="kbroker", choices=("kbroker", "kafka-4.3.1"))
    parser.add_argument("--clients", default="java,librdkafka,franz-go",
                        help="one that stands there twice is taken twice as often")  # fmt: skip
    parser.add_argument("--assignor", choices=("cooperative-sticky", "range"),
                        help="of the members of the classic protocol")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="DIR",
                        help="leave the brokers' and the members' files there")  # fmt: skip


@contextmanager
def group_of(given: argparse.Namespace) -> Iterator[tuple[Ledger, Brokers | None]]:
    """Start brokers, and a group that has no members yet; Apache Kafka's broker is not killed."""
    with ExitStack() as end:
        directory = given.keep or Path(end.enter_context(tempfile.TemporaryDirectory()))
        logs = directory / "members"
        logs.mkdir(parents=True)
        brokers = None
        if given.target == "kbroker":
            brokers = Brokers(given.brokers, directory / "brokers", given.seed)
            end.callback(brokers.close)
            bootstrap = brokers.bootstrap
        else:
            bootstrap, _ = end.enter_context(apache_kafka.broker(settings=_SETTINGS))
        create_topic(bootstrap, TOPIC, given.partitions)
        ledger = Ledger(bootstrap, given.partitions, logs, given.assignor)
        end.callback(ledger.close)
        yield ledger, brokers


def verdict(faults: list[str]) -> int:
    """Print the faults; the status of the program."""
    print(*faults, f"{len(faults)} faults", sep="\n")
    return 1 if faults else 0
