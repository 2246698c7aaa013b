"""Kafka Connect, standalone and distributed, with its connectors for files."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from compat_tests.clients.every_client import create_topic
from compat_tests.conftest import BrokerProcess
from compat_tests.frameworks.java_worker import KAFKA_VERSIONS, connect_command, properties_file
from compat_tests.frameworks.lines import lines
from compat_tests.frameworks.story import TEST_TIMEOUT_S, RunWorker
from compat_tests.running import apache_kafka
from compat_tests.running.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.timeout(TEST_TIMEOUT_S)]

TEXT = "org.apache.kafka.connect.storage.StringConverter"
WORKER = {
    "key.converter": TEXT,
    "value.converter": TEXT,
    "offset.flush.interval.ms": "300",
    "plugin.discovery": "service_load",
    "consumer.session.timeout.ms": "6000",
}


def file_connectors(folder: Path, topic: str) -> dict[str, dict[str, object]]:
    """Lines of a file to a topic, and from there to another file."""
    return {
        f"source-{topic}": {
            "connector.class": "FileStreamSource", "tasks.max": 1, "topic": topic,
            "file": folder / "in.txt",
        },
        f"sink-{topic}": {
            "connector.class": "FileStreamSink", "tasks.max": 2, "topics": topic,
            "file": folder / "out.txt",
        },
    }  # fmt: skip


def append(path: Path, values: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(f"{value}\n" for value in values)


def contents(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_a_standalone_worker_copies_every_line_once(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path, version: str
) -> None:
    files = [
        properties_file(tmp_path / f"{name}.properties", {"name": name, **settings})
        for name, settings in file_connectors(tmp_path, topic).items()
    ]
    own = {
        "bootstrap.servers": broker.bootstrap,
        "offset.storage.file.filename": tmp_path / "offsets",
        "listeners": f"http://127.0.0.1:{apache_kafka.free_port()}",
    }
    settings = properties_file(tmp_path / "worker.properties", {**WORKER, **own})
    command = connect_command(version, "cli.ConnectStandalone", settings, *files)
    append(tmp_path / "in.txt", lines(0, 100))

    worker = run_worker(command)
    until(lambda: contents(tmp_path / "out.txt") == lines(0, 100), "100 lines are copied")
    worker.stop()
    append(tmp_path / "in.txt", lines(100, 100))
    worker.start()

    until(lambda: len(contents(tmp_path / "out.txt")) >= 200, "200 lines are copied")
    worker.stop()
    assert contents(tmp_path / "out.txt") == lines(0, 200)


class Cluster:
    """Workers of Kafka Connect that share their work; asked by HTTP."""

    def __init__(
        self, broker: BrokerProcess, run_worker: RunWorker, version: str, name: str
    ) -> None:
        self.ports = [apache_kafka.free_port() for _ in range(2)]
        self.workers = []
        for port in self.ports:
            own = {
                "bootstrap.servers": broker.bootstrap,
                "group.id": name,
                **{f"{what}.storage.topic": f"{name}-{what}" for what in ("config", "offset", "status")},
                **{f"{what}.storage.replication.factor": 1 for what in ("config", "offset", "status")},
                "offset.storage.partitions": 5,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 500,
                "scheduled.rebalance.max.delay.ms": 0,
                "listeners": f"http://127.0.0.1:{port}",
            }  # fmt: skip
            path = broker.data.parent / f"{name}-{port}.properties"
            settings = properties_file(path, {**WORKER, **own})
            command = connect_command(version, "cli.ConnectDistributed", settings)
            self.workers.append(run_worker(command))

    def ask(self, worker: int, method: str, path: str, body: object = None) -> Any:
        """Return a worker's answer, None as long as it gives none or has a rebalance to wait for."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[worker]}{path}",
            method=method,
            data=None if body is None else json.dumps(body, default=str).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.loads(answer.read() or b"{}")
        except (OSError, urllib.error.HTTPError):
            return None

    def tasks(self, connectors: Iterable[str]) -> Counter[tuple[str, str]]:
        """How many tasks are in a state at a worker, as the first worker knows it."""
        paths = (f"/connectors/{connector}/status" for connector in connectors)
        told = [self.ask(0, "GET", path) or {"tasks": []} for path in paths]
        return Counter((task["state"], task["worker_id"]) for one in told for task in one["tasks"])


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_distributed_workers_take_over_from_each_other(
    broker: BrokerProcess, topic: str, run_worker: RunWorker, tmp_path: Path, version: str
) -> None:
    create_topic(broker.bootstrap, topic, 2)
    cluster = Cluster(broker, run_worker, version, f"connect-{topic}")
    append(tmp_path / "in.txt", lines(0, 100))
    connectors = file_connectors(tmp_path, topic)
    for name, settings in connectors.items():
        made = {"name": name, "config": settings}
        until(lambda made=made: cluster.ask(0, "POST", "/connectors", made), f"{name} is made")

    until(lambda: set(contents(tmp_path / "out.txt")) == set(lines(0, 100)), "100 lines are copied")
    first, second = (("RUNNING", f"127.0.0.1:{port}") for port in cluster.ports)
    until(lambda: set(cluster.tasks(connectors)) == {first, second}, "both workers have tasks")
    cluster.workers[1].kill()
    append(tmp_path / "in.txt", lines(100, 100))
    until(lambda: set(contents(tmp_path / "out.txt")) == set(lines(0, 200)), "200 lines are copied")
    until(lambda: cluster.tasks(connectors) == {first: 3}, "the worker that is left has all tasks")

    cluster.workers[0].stop()
    cluster.workers[0].start()
    append(tmp_path / "in.txt", lines(200, 100))
    until(lambda: set(contents(tmp_path / "out.txt")) == set(lines(0, 300)), "300 lines are copied")
    cluster.workers[0].stop()
    again = Counter(contents(tmp_path / "out.txt"))
    assert {again[line] for line in lines(200, 100)} == {1}
