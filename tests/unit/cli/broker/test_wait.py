"""`kbroker wait` asks at least once, however short its time is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker import status
from kbroker.cli.broker.own_listener import own_listener
from kbroker.cli.broker.status import wait
from kbroker.client.bootstrap import settings_of
from kbroker.errors import ErrorCode, Trouble


def answering(controller_id: int, *topics: Any) -> Any:
    @contextmanager
    def connected(_bootstrap: str) -> Iterator[Any]:
        described = SimpleNamespace(controller_id=controller_id, topics=topics)
        yield SimpleNamespace(describe=lambda _names: described)

    return connected


@pytest.mark.parametrize("timeout", ["0", "-1", "nan"])
def test_a_broker_that_is_ready_is_found_without_time(
    monkeypatch: pytest.MonkeyPatch, timeout: str
) -> None:
    monkeypatch.setattr(status, "cluster_links", answering(0))

    result = CliRunner().invoke(status.wait, ["--timeout", timeout], standalone_mode=False)

    assert result.exception is None


@pytest.mark.parametrize(
    ("timeout", "given_ms", "least_s", "most_s"),
    [
        ("2", None, 1.0, 2.0),
        ("0", None, 1.0, 1.0),
        ("600", None, 5.0, 5.0),
        ("600", 300, 0.3, 0.3),
        ("2", 60_000, 1.0, 2.0),
    ],
)
def test_an_answer_is_waited_for_no_longer_than_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
    timeout: str,
    given_ms: int | None,
    least_s: float,
    most_s: float,
) -> None:
    asked = []
    links = answering(0)

    def connected(bootstrap: str) -> Any:
        asked.append(settings_of(bootstrap).request_timeout_s)
        return links(bootstrap)

    monkeypatch.setattr(status, "cluster_links", connected)
    own = [] if given_ms is None else ["-X", f"request.timeout.ms={given_ms}"]

    result = CliRunner().invoke(status.wait, ["--timeout", timeout, *own], standalone_mode=False)

    assert result.exception is None
    (answer_s,) = asked
    assert answer_s is not None
    assert least_s <= answer_s <= most_s


def test_what_is_missing_is_said_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "cluster_links", answering(-1))

    result = CliRunner().invoke(status.wait, ["--timeout", "0"], standalone_mode=False)

    assert isinstance(result.exception, CommandError)
    assert result.exception.code == ExitCode.TIMEOUT
    assert "within 0 s: the cluster has no controller" in result.exception.message


def test_a_topic_that_is_not_there_leads_to_what_is_said_of_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = SimpleNamespace(name="orders", error_code=code, partitions=[])
    monkeypatch.setattr(status, "cluster_links", answering(0, topic))

    result = CliRunner().invoke(
        status.wait, ["--timeout", "0", "--topic", "orders"], standalone_mode=False
    )

    assert isinstance(result.exception, CommandError)
    assert result.exception.trouble == Trouble.UNKNOWN_TOPIC


@pytest.mark.parametrize(
    ("lines", "address"),
    [
        ("listeners=PLAINTEXT://:29092", "127.0.0.1:29092"),
        ("listeners=PLAINTEXT://0.0.0.0:29092", "127.0.0.1:29092"),
        ("listeners=PLAINTEXT://[::]:29092", "[::1]:29092"),
        ("listeners=PLAINTEXT://broker:29092", "broker:29092"),
        (
            "listeners=CONTROLLER://:1,PLAINTEXT://:2\ncontroller.listener.names=CONTROLLER",
            "127.0.0.1:2",
        ),
        ("num.partitions=3", "127.0.0.1:9092"),
    ],
)
def test_the_broker_of_a_file_listens_where_the_file_says(
    tmp_path: Path, lines: str, address: str
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(lines)

    with click.Context(wait):
        assert own_listener(str(file), "elsewhere:1").bootstrap == address


def test_settings_that_no_broker_starts_with_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=none")

    with click.Context(wait):
        for name in (str(file), "/no/such/file"):
            with pytest.raises(CommandError):
                own_listener(name, "elsewhere:1")
