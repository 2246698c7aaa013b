"""Requests in lines for a person, and what `kbroker trace` says of an address that does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.trace import trace
from kbroker.cli.broker.trace_lines import HEAD, line_of

ENTRY: Mapping[str, Any] = {
    "at_ms": 1_700_000_000_123,
    "took_ms": 1234.5678,
    "api": "Produce",
    "version": 9,
    "correlation_id": 1,
    "client_id": "app",
    "address": "127.0.0.1:50000",
    "request_bytes": 1_234,
    "answer_bytes": 45,
}


def test_a_line_says_when_how_long_who_and_what() -> None:
    line = line_of({**ENTRY, "partitions": ["orders-0", "orders-1"], "partition_count": 2})

    time, took, *rest = line.split(maxsplit=2)
    assert time.endswith(".123")
    assert took == "1,234.6"
    assert rest[0].split("  ")[0] == "Produce v9"
    assert line.endswith("1,234 > 45         orders-0, orders-1")
    for text, head in (("Produce", "REQUEST"), ("app", "CLIENT"), ("127.0", "ADDRESS")):
        assert line.index(text) == HEAD.index(head)


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"topics": ["a", "b"], "topic_count": 9}, "a, b and 7 more"),
        ({"groups": ["g"], "transactional_ids": ["x"]}, "group g, transactional id x"),
        (
            {
                "partitions": ["t-0"],
                "partition_count": 1,
                "codes": [{"code": "NOT_LEADER_OR_FOLLOWER", "about": "t-0"}],
                "code_count": 3,
            },
            "t-0; NOT_LEADER_OR_FOLLOWER (t-0) and 2 more",
        ),
        ({"codes": [{"code": "NOT_COORDINATOR"}], "code_count": 1}, "NOT_COORDINATOR"),
        ({"answer_bytes": None, "closed": True}, "connection closed"),
        ({"answer_bytes": None, "client_id": None}, "1,234 > -"),
    ],
)
def test_a_line_ends_with_what_was_asked_for_and_refused(more: Any, end: str) -> None:
    assert line_of({**ENTRY, **more}).endswith("  " + end)


def test_names_steer_no_terminal() -> None:
    line = line_of({**ENTRY, "client_id": "a\x1b[2J\n\x9b", "topics": ["\x07"], "topic_count": 1})

    assert line.isprintable()
    assert r"a\x1b[2J\n\x9b" in line


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """The address of a server that answers so, once."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        thread.join()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(trace, arguments, standalone_mode=False)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, b"the broker is starting\n", "answered 503: the broker is starting"),
        (200, b"<html>\n", "does not answer as a broker does"),
        (200, b"[1]\n", "does not answer as a broker does"),
        (200, b"", "has ended: the broker has stopped, or this has not kept up"),
    ],
)
def test_an_address_that_answers_else_is_named(status: int, body: bytes, said: str) -> None:
    with answering(status, body) as url:
        error = run("--url", url).exception

    assert isinstance(error, CommandError)
    assert error.message == f"{url} {said}"


def test_an_address_where_nobody_listens_is_named() -> None:
    error = run("--url", "http://127.0.0.1:1").exception

    assert isinstance(error, CommandError)
    assert error.code == ExitCode.CANNOT_CONNECT


def test_missed_requests_are_counted_beside_those_that_are_printed() -> None:
    with answering(200, b'{"missed": 2}\n') as url:
        result = run("--url", url, "--output", "jsonl", "--seconds", "60")

    assert result.exception is None
    assert result.stdout == ""
    assert result.stderr == (
        f"following the broker at {url}\n2 requests missed: they come faster than they are read\n"
    )
