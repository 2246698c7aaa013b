"""`kbroker health --url` says what the broker says of itself."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.status import health
from kbroker.errors import Trouble
from kbroker.http.guard import Guard
from kbroker.http.health import Check
from tests.fakes.running.http_here import HttpHere


def outcome(*options: str) -> BaseException | str:
    """Run the command, and return its error, or else what it prints."""
    result = CliRunner().invoke(health, options, standalone_mode=False)
    return result.exception or result.output


def error(*options: str) -> CommandError:
    raised = outcome(*options)
    assert isinstance(raised, CommandError)
    return raised


@contextmanager
def answering(sent: bytes) -> Iterator[str]:
    """The address of a server that reads a request, and sends this."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(sent)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=answer)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_broker_that_is_ready_ends_the_command_well() -> None:
    with HttpHere() as here:
        url = f"http://127.0.0.1:{here.port}"
        assert outcome("--url", url) == f"{url} is ready\n"
        assert outcome("--url", f"{url}/readyz") == f"{url}/readyz is ready\n"


def test_problems_are_those_of_the_broker_and_lead_to_more() -> None:
    with HttpHere() as here:
        here.checks = [
            Check(name="disks", problem="offline: /data"),
            Check(name="offline partitions", problem="t-0 has no leader"),
        ]
        raised = error("--url", f"127.0.0.1:{here.port}")

    assert raised.message == "disks: offline: /data; offline partitions: t-0 has no leader"
    assert (raised.code, raised.trouble) == (ExitCode.ITEM_FAILED, Trouble.NO_LEADER)


def test_details_need_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("geheim\n")
    with HttpHere(guard=Guard(token="geheim")) as here:
        here.checks = [Check(name="disks", problem="offline: /data")]
        url = f"http://127.0.0.1:{here.port}"

        assert error("--url", url).message == "disks: not well"
        known = error("--url", url, "--token-file", str(file))
    assert known.message == "disks: offline: /data"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\nno such page\nat all", "answered 404: no such page"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "does not answer as a broker's health does"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", "does not answer as a broker's health does"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 9_999, "does not answer as a broker's health does"),
        (b"\x00\x00\x00\x05hello\r\n", "does not answer as an HTTP server"),
    ],
    ids=["other page", "HTML", "other JSON", "deep JSON", "no HTTP"],
)
def test_what_is_no_broker_is_named_as_such(sent: bytes, said: str) -> None:
    with answering(sent) as url:
        raised = error("--url", url)

    assert (raised.message, raised.code) == (f"{url} {said}", ExitCode.ITEM_FAILED)


@pytest.mark.parametrize(
    "url",
    [
        "http://", "ftp://h:1", "http://h:port", "http://h:99999", "http://[", "http://h/a b",
        "http://h/\u00e9",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    assert isinstance(outcome("--url", url), click.BadParameter)


def test_a_name_that_cannot_be_is_where_nobody_can_connect() -> None:
    raised = error("--url", "http://a..b:1")

    assert raised.message == "cannot connect to http://a..b:1: it has no host name"
    assert raised.code == ExitCode.CANNOT_CONNECT


def test_a_token_may_have_any_letters_and_a_file_without_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with HttpHere(guard=Guard(token="geheim\xe9")) as here:
        here.checks = [Check(name="disks", problem="offline: /data")]
        options = ("--url", f"http://127.0.0.1:{here.port}", "--token-file", str(file))
        file.write_text("geheim\xe9\n", encoding="utf-8")
        assert error(*options).message == "disks: offline: /data"
        for written in (b"", b"\n", b"\xff\xff", b"a\x00b\n"):
            file.write_bytes(written)
            assert error(*options).code == ExitCode.USAGE
