"""Requests that are followed over HTTP: lines that come as they come, and readers that do not read,
or go.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from typing import Any

import pytest

from kbroker.apis.request_tracer import READERS_MAX, RequestTracer
from kbroker.http.connection import Limits
from kbroker.http.guard import Guard
from kbroker.protocol.request import Response
from kbroker.tracing.trace_filter import PATH
from kbroker.tracing.trace_reader import KEPT_MAX
from tests.fakes.requests.recording_replier import request_of
from tests.fakes.running.http_here import HttpHere
from tests.fakes.running.virtual_time import VirtualTime

HEARTBEAT = request_of(12, 4, b"")
SECOND_LONGEST_NAME = "c" * 199


class Traced:
    """A tracer that an HttpHere shows, and how often it was switched."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.switched: list[bool] = []
        self.tracer = RequestTracer(VirtualTime(), lambda _topic_id: None, self.switched.append)
        self.here = HttpHere(limits, tracer=lambda: self.tracer)

    def ask(self, count: int = 1, client_id: str = "app") -> None:
        """Have so many requests answered on the loop of the broker."""
        header = HEARTBEAT.header._replace(client_id=client_id)
        request = HEARTBEAT._replace(header=header)

        def answer() -> None:
            for _ in range(count):
                self.tracer.handle(lambda _request: Response([b"12345"]), request)

        self.here.on_loop(answer)

    @contextmanager
    def follow(self, query: str = "") -> Iterator[HTTPResponse]:
        connection = self.here.connect()
        connection.request("GET", PATH + query)
        try:
            yield connection.getresponse()
        finally:
            connection.close()

    def wait_until_nobody_follows(self) -> None:
        while self.switched[-1:] != [False]:
            self.here.on_loop(lambda: None)


def line_of(answer: HTTPResponse) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(answer.readline())
    return value


def test_each_request_is_a_line_as_soon_as_it_is_answered() -> None:
    traced = Traced()
    with traced.here, traced.follow() as answer:
        assert (answer.status, answer.getheader("content-type")) == (200, "application/jsonl")
        for client_id in ("one", "two"):
            traced.ask(client_id=client_id)
            value = line_of(answer)
            assert (value["api"], value["client_id"]) == ("Heartbeat", client_id)
            assert value["answer_bytes"] == 5


def test_a_filter_stands_in_the_query() -> None:
    traced = Traced()
    with traced.here, traced.follow("?client_id=b*&api=heartbeat") as answer:
        traced.ask(client_id="a")
        traced.ask(client_id="b")
        assert line_of(answer)["client_id"] == "b"


@pytest.mark.parametrize(
    "query", ["?clientid=a", "?code=NO_SUCH", "?slower_than_ms=soon", "?api=Fetsh"]
)
def test_a_filter_that_says_nothing_sensible_is_refused(query: str) -> None:
    traced = Traced()
    with traced.here:
        assert traced.here.get(PATH + query)[0] == 400
        assert traced.switched == []


def test_nobody_follows_before_a_reader_comes_or_after_it_goes() -> None:
    traced = Traced()
    with traced.here:
        assert traced.here.get("/livez")[0] == 200
        assert traced.switched == []
        with traced.follow():
            assert traced.switched == [True]
        traced.wait_until_nobody_follows()


def test_a_reader_that_only_looks_at_the_head_is_refused() -> None:
    traced = Traced()
    with traced.here:
        connection = traced.here.connect()
        connection.request("HEAD", PATH)
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("allow")) == (405, "GET")
        connection.close()
        assert traced.switched == []


def test_more_readers_than_there_may_be_are_refused() -> None:
    traced = Traced()
    with traced.here, ExitStack() as readers:
        answers = [readers.enter_context(traced.follow()) for _ in range(READERS_MAX)]
        assert {answer.status for answer in answers} == {200}
        status, text = traced.here.get(PATH)
        assert (status, text) == (503, "8 follow the requests of this broker already\n")
        readers.close()
        traced.wait_until_nobody_follows()


def test_a_broker_that_starts_has_nothing_to_follow() -> None:
    with HttpHere() as here:
        assert here.get(PATH) == (503, "the broker is starting\n")


def test_who_has_no_token_follows_nothing() -> None:
    with HttpHere(guard=Guard(token="geheim")) as here:
        assert here.get(PATH)[0] == 401


def test_a_burst_is_followed_by_what_was_missed_of_it() -> None:
    traced = Traced()
    with traced.here, traced.follow() as answer:
        traced.ask(KEPT_MAX + 7)
        assert line_of(answer) == {"missed": 7}
        assert [line_of(answer)["api"] for _ in range(KEPT_MAX)] == ["Heartbeat"] * KEPT_MAX


def test_a_reader_that_does_not_read_is_cut_off_and_nobody_follows_any_more() -> None:
    traced = Traced(Limits(look_s=0.2))
    with traced.here, traced.here.raw() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        while traced.switched != [True, False]:
            traced.ask(100, SECOND_LONGEST_NAME)


def test_a_stop_ends_those_who_follow() -> None:
    traced = Traced()
    with traced.here, traced.follow() as answer:
        traced.ask()
        assert line_of(answer)["api"] == "Heartbeat"
        traced.here.stop()
        traced.wait_until_nobody_follows()


def test_a_reader_may_wait_for_long() -> None:
    traced = Traced(Limits(look_s=0.01))
    with traced.here, traced.follow() as answer:
        for _ in range(50):  # which takes more than two looks
            assert traced.here.get("/livez")[0] == 200
        traced.ask()
        assert line_of(answer)["api"] == "Heartbeat"
