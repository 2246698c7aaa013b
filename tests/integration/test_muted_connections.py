"""A connection that is throttled gets its answer at once, and is read again when its time is over
(KIP-219).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kbroker.protocol.codec import encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.request import NoResponse, Request, Response
from kbroker.server.start.event_loop import EventLoopKind
from tests.fakes.brokers.small_server import LOOPS, SmallServer

THROTTLE_MS = 500
FREE, THROTTLED, UNANSWERED, LARGE = 1, 2, 3, 4  # correlation ids
LARGE_BYTES = 8 << 20  # more than a socket takes at once


def handle(request: Request) -> Response | NoResponse:
    asked = request.header.correlation_id
    throttle_ms = 0 if asked == FREE else THROTTLE_MS
    if asked == UNANSWERED:
        return NoResponse(throttle_ms=throttle_ms)
    size = LARGE_BYTES if asked == LARGE else 1
    return Response([bytes([asked]) * size], throttle_ms)


def frame(correlation_id: int) -> bytes:
    head = encode_request_header(RequestHeader(12, 0, correlation_id, "c"))
    return encode(HeartbeatRequest(), 0, head)


def now_ms() -> float:
    return time.monotonic() * 1000


@pytest.fixture(params=LOOPS)
def server(request: pytest.FixtureRequest) -> Iterator[SmallServer]:
    with SmallServer(handle, request.param) as running:
        yield running


def test_the_answer_leaves_at_once_and_the_next_request_waits(server: SmallServer) -> None:
    with server.connect() as connection:
        begin_ms = now_ms()
        connection.send_frame(frame(THROTTLED))
        connection.send_frame(frame(FREE))

        assert connection.read_frame() == bytes([THROTTLED])
        assert now_ms() - begin_ms < THROTTLE_MS
        assert connection.read_frame() == bytes([FREE])
        assert now_ms() - begin_ms >= THROTTLE_MS - 1  # a loop counts in milliseconds


def test_what_is_sent_while_it_is_muted_is_read_afterwards(server: SmallServer) -> None:
    with server.connect() as connection:
        connection.send_frame(frame(THROTTLED))
        connection.read_frame()
        begin_ms = now_ms()
        connection.send_frame(frame(FREE))

        assert connection.read_frame() == bytes([FREE])
        assert now_ms() - begin_ms >= THROTTLE_MS / 2


def test_others_are_served_meanwhile(server: SmallServer) -> None:
    with server.connect() as muted, server.connect() as other:
        begin_ms = now_ms()
        muted.send_frame(frame(THROTTLED))
        muted.read_frame()
        other.send_frame(frame(FREE))

        assert other.read_frame() == bytes([FREE])
        assert now_ms() - begin_ms < THROTTLE_MS


def test_a_request_without_an_answer_mutes_too(server: SmallServer) -> None:
    with server.connect() as connection:
        begin_ms = now_ms()
        connection.send_frame(frame(UNANSWERED))
        connection.send_frame(frame(FREE))

        assert connection.read_frame() == bytes([FREE])
        assert now_ms() - begin_ms >= THROTTLE_MS


def test_an_answer_that_leaves_slower_than_the_connection_is_muted(server: SmallServer) -> None:
    with server.connect() as connection:
        connection.send_frame(frame(LARGE))
        time.sleep(1.5 * THROTTLE_MS / 1000)
        connection.send_frame(frame(FREE))

        assert len(connection.read_frame()) == LARGE_BYTES
        assert connection.read_frame() == bytes([FREE])


@pytest.mark.parametrize("kind", LOOPS)
def test_a_server_that_stops_does_not_wait_for_muted_connections(kind: EventLoopKind) -> None:
    with SmallServer(lambda request: Response([b"a"], 10 * THROTTLE_MS), kind) as stopping:
        connection = stopping.connect()
        connection.send_frame(frame(THROTTLED))
        connection.read_frame()
        begin_ms = now_ms()

    with connection:
        assert connection.is_closed_by_peer()
        assert now_ms() - begin_ms < 5 * THROTTLE_MS
