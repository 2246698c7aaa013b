"""A user's test asks for `kafka_bootstrap`, `kafka_topic` and `kafka_group`, and that is all it
does.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.running.waiting import until
from kbroker.testing import Broker

WORKERS = pytest.mark.parametrize("workers", ["-n0", "-n2"])
# Plugins that cost a second in each process and change nothing here, and files for other runs.
WITHOUT = [
    f"-pno:{plugin}" for plugin in ("hypothesispytest", "asyncio", "timeout", "cacheprovider")
]
ORDERS = """
from kafka import KafkaConsumer, KafkaProducer

def test_an_order_is_sent(kafka_bootstrap, kafka_topic, kafka_group, request):
    producer = KafkaProducer(bootstrap_servers=kafka_bootstrap)
    assert producer.send(kafka_topic, b"42").get(timeout=10).offset == 0
    producer.close()
    consumer = KafkaConsumer(
        kafka_topic,
        bootstrap_servers=kafka_bootstrap,
        group_id=kafka_group,
        auto_offset_reset="earliest",
    )
    assert next(consumer).value == b"42"
    consumer.close()
    with open("used", "a") as used:
        print(kafka_bootstrap, kafka_topic, kafka_group, file=used)
"""
# No client of its own: what a client's threads say as they end is not what is looked at.
ASKED = """
def test_an_order_is_sent(kafka_bootstrap, kafka_topic):
    with open("used", "a") as used:
        print(kafka_bootstrap, file=used)
"""
SECURED = """
from confluent_kafka import Producer

def test_ann_and_bob_come_in(kafka_secure):
    for user in ("ann", "bob"):
        producer = Producer(kafka_secure.client(user, "confluent-kafka"))
        producer.produce("orders", user.encode())
        assert producer.flush(20) == 0
    with open("used", "a") as used:
        print(kafka_secure.bootstrap, kafka_secure.ca, file=used)
"""
ENDLESS = """
import os, time

def test_endless(kafka_bootstrap):
    with open("used", "a") as used:
        print(kafka_bootstrap, file=used)
    time.sleep(100)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where brokers put data that is to go at the end."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


def command(workers: str) -> list[str]:
    return [sys.executable, "-m", "pytest", *WITHOUT, "-rA", workers, "--dist=load"]


def run(directory: Path, workers: str, timeout_s: float = 60) -> str:
    """Run the user's tests in a directory and return what they print."""
    return subprocess.run(
        command(workers),
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    ).stdout


def used(directory: Path) -> list[list[str]]:
    return [line.split() for line in (directory / "used").read_text().splitlines()]


def is_served(bootstrap: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(bootstrap.rpartition(":")[2]))) == 0


@contextmanager
def running(directory: Path, workers: str) -> Iterator[subprocess.Popen[bytes]]:
    """The user's tests, with a broker, until they are killed."""
    with subprocess.Popen(
        command(workers), cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as pytest_process:
        try:
            until(lambda: (directory / "used").exists() and used(directory) != [])
            yield pytest_process
        finally:
            pytest_process.kill()


@WORKERS
def test_all_tests_of_a_run_share_a_broker_and_have_a_topic_and_a_group_each(
    tmp_path: Path, temporary: Path, workers: str
) -> None:
    for name in ("test_books.py", "test_chairs.py", "test_lamps.py", "test_tables.py"):
        (tmp_path / name).write_text(ORDERS)

    output = run(tmp_path, workers)

    assert "4 passed" in output
    bootstraps, topics, groups = zip(*used(tmp_path), strict=True)
    assert len(set(bootstraps)) == 1
    assert len(set(topics)) == 4
    assert len(set(groups)) == 4
    assert all(group.startswith("test_an_order_is_sent-") for group in groups)
    assert not is_served(bootstraps[0])
    assert list(temporary.glob("kbroker-*")) == []


@WORKERS
def test_all_tests_of_a_run_share_a_broker_with_tls_and_users(
    tmp_path: Path, temporary: Path, workers: str
) -> None:
    for name in ("test_books.py", "test_chairs.py"):
        (tmp_path / name).write_text(SECURED)

    output = run(tmp_path, workers)

    assert "2 passed" in output
    ((bootstrap, ca),) = {tuple(each) for each in used(tmp_path)}
    assert not is_served(bootstrap)
    assert not Path(ca).exists()
    assert list(temporary.glob("kbroker-*")) == []


@WORKERS
def test_a_run_ends_in_order_where_pytest_removes_its_directories_first(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\ntmp_path_retention_policy = failed\n")
    (tmp_path / "test_orders.py").write_text(ASKED)

    output = run(tmp_path, workers)

    assert "1 passed" in output
    assert "Traceback" not in output
    ((bootstrap, *_),) = used(tmp_path)
    until(lambda: not is_served(bootstrap))


@WORKERS
def test_a_killed_run_leaves_no_broker(tmp_path: Path, temporary: Path, workers: str) -> None:
    (tmp_path / "test_endless.py").write_text(ENDLESS)

    with running(tmp_path, workers):
        ((bootstrap,),) = used(tmp_path)
        assert is_served(bootstrap)

    until(lambda: not is_served(bootstrap))
    until(lambda: list(temporary.glob("kbroker-*")) == [])


def test_the_broker_outlives_the_worker_that_started_it(tmp_path: Path) -> None:
    (tmp_path / "test_crash.py").write_text("""
import os

def test_crash(kafka_bootstrap):
    with open("used", "a") as used:
        print(kafka_bootstrap, file=used)
    os.kill(os.getpid(), 9)
""")
    (tmp_path / "test_orders.py").write_text(ORDERS)

    output = run(tmp_path, "-n1")

    assert "1 failed, 1 passed" in output
    assert "crashed while running 'test_crash.py::test_crash'" in output
    (before,), (after, *_) = used(tmp_path)
    assert before == after


@WORKERS
def test_a_failed_start_is_the_brokers_sentence_in_the_tests_error(
    tmp_path: Path, workers: str
) -> None:
    (tmp_path / "test_orders.py").write_text(ORDERS)
    with Broker() as other:
        port = int(other.bootstrap.rpartition(":")[2])
        (tmp_path / "conftest.py").write_text(f"""
from kbroker.testing import broker

class OnTakenPort(broker.Broker):
    def __init__(self):
        super().__init__(port={port})

broker.Broker = OnTakenPort
""")
        output = run(tmp_path, workers)

    assert "1 error" in output
    sentence = f"listeners: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert f"\n{sentence}" in output
    assert "Traceback" not in output
    assert "broker.py:" not in output


def test_a_fixture_of_ones_own_fails_with_the_brokers_sentence(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text("""
from kbroker.testing import Broker

def test_an_order_is_sent():
    with Broker(settings={"num.partitions": 0}) as broker:
        pass
""")

    output = run(tmp_path, "-n0")

    assert '>       with Broker(settings={"num.partitions": 0}) as broker:' in output
    assert (
        "E       kbroker.testing.broker.BrokerError: "
        "Invalid value 0 for configuration num.partitions: Value must be at least 1" in output
    )
    assert "broker.py:" not in output


def test_a_session_without_a_broker_pays_for_none(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass")
    (tmp_path / "conftest.py").write_text("""
import sys

def pytest_unconfigure():
    print("imported:", *sorted(m for m in sys.modules if m.startswith("kbroker")))
""")

    output = run(tmp_path, "-n0")

    imported = "kbroker kbroker.testing kbroker.testing.broker kbroker.testing.pytest_plugin"
    assert f"imported: {imported}\n" in output


def test_workers_of_a_run_without_a_broker_have_none_to_stop(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text("def test_nothing(): pass")

    begun_s = time.monotonic()
    output = run(tmp_path, "-n2")

    assert "1 passed" in output
    assert time.monotonic() - begun_s < 20


def test_fixtures_are_explained(tmp_path: Path) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "pytest", *WITHOUT, "--fixtures"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    ).stdout

    assert "kafka_bootstrap [session scope]" in shown
    assert "kafka_topic" in shown
    assert "kafka_group" in shown
