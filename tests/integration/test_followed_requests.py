"""A broker whose requests somebody follows, by the command and over HTTP, while clients use it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.running.forked_kbroker import ForkedKbroker
from kbroker.cli.arguments.connection import ExitCode
from kbroker.cli.broker.trace_lines import HEAD
from tests.faults.running_broker import RunningBroker

SECRET = "s3cr3t"
SETTINGS = {"kbroker.http.listeners": "127.0.0.1:0", "kbroker.slow.request.ms": "0"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    options = [word for pair in SETTINGS.items() for word in ("--override", "=".join(pair))]
    running = RunningBroker(tmp_path / "data", "--log-format", "json", *options)
    running.start()
    yield running
    running.end()


def url_of(broker: RunningBroker) -> str:
    while not (found := re.findall(r"console at (http://\S+)/\n", broker.said())):
        assert broker.process is not None
        assert broker.process.poll() is None
    return str(found[0])


@contextmanager
def following(broker: RunningBroker, *options: str) -> Iterator[Iterator[str]]:
    """The lines that the command prints, from the moment on at which it follows."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    arguments = ("trace", "--url", url_of(broker), *options)
    with ForkedKbroker(*arguments, **pipes) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == HEAD + "\n"
        try:
            yield command.stdout
        finally:
            command.send_signal(signal.SIGINT)
        assert command.wait() == ExitCode.INTERRUPTED


def produce(broker: RunningBroker, topic: str, client_id: str = "writer") -> None:
    address = f"127.0.0.1:{broker.port}"
    with KafkaProducer(bootstrap_servers=address, client_id=client_id) as producer:
        producer.send(topic, SECRET.encode(), key=SECRET.encode()).get(30)


def test_the_command_shows_who_produces_what(broker: RunningBroker) -> None:
    produce(broker, "before")
    with following(broker, "--api", "produce", "--client-id", "writ*") as lines:
        produce(broker, "orders", client_id="other")
        produce(broker, "orders")
        line = next(lines)
    assert re.search(r"  Produce v\d+ +writer +127\.0\.0\.1:\d+ +\d+ > \d+ +orders-0\n", line)


def test_a_consumer_in_a_session_is_followed_by_topic(broker: RunningBroker) -> None:
    produce(broker, "orders")
    with (
        following(broker, "--topic", "ord*", "--api", "fetch") as lines,
        KafkaConsumer(
            "orders",
            bootstrap_servers=f"127.0.0.1:{broker.port}",
            client_id="reader",
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        assert next(consumer).value == SECRET.encode()
        produce(broker, "orders")
        assert next(consumer).value == SECRET.encode()
        shown = [next(lines) for _ in range(2)]
    assert all("orders-0" in line and "reader" in line for line in shown)


def test_nothing_that_clients_store_is_shown(broker: RunningBroker) -> None:
    connection = HTTPConnection(url_of(broker).removeprefix("http://"), timeout=30)
    connection.request("GET", "/api/trace")
    answer = connection.getresponse()
    assert answer.status == 200

    produce(broker, "orders")
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["api"] != "Produce":
        seen.append(json.loads(answer.readline()))
    connection.close()

    assert seen[-1]["topics"] == ["orders"]
    assert {"ApiVersions", "Metadata"} <= {each["api"] for each in seen}
    assert SECRET not in json.dumps(seen)


def test_a_broker_that_stops_ends_the_command(broker: RunningBroker) -> None:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with ForkedKbroker("trace", "--url", url_of(broker), **pipes) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == HEAD + "\n"
        assert broker.stop() == 0
        _, said = command.communicate()
    assert command.returncode == ExitCode.ITEM_FAILED
    assert "has ended: the broker has stopped" in said


def test_slow_requests_are_in_the_log_of_the_broker(broker: RunningBroker) -> None:
    produce(broker, "orders")
    lines = [json.loads(line) for line in broker.said().splitlines() if line.startswith("{")]

    slow = [line for line in lines if line.get("event") == "slow_request"]
    (produced,) = [line for line in slow if line["api"] == "Produce"]
    assert (produced["topic"], produced["client_id"], produced["level"]) == (
        "orders",
        "writer",
        "warning",
    )
    assert "Produce of 'orders-0' took " in str(produced)
    assert SECRET not in broker.said()
