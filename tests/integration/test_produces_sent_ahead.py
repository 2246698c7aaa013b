"""Requests to produce that are sent ahead: they begin before the ones before them are answered, and
all answers keep the order of the requests.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kbroker.config.kafka_config import KafkaConfig
from kbroker.errors import ProtocolError
from kbroker.log.disk import file_system
from kbroker.network.answer_line import LENGTH_MAX, TOTAL_MAX
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader, encode_request_header
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import Accepted, NoResponse, Request, Response
from kbroker.record.record_batch import Record, build
from kbroker.server.broker.kafka_server import KafkaServer
from tests.fakes.brokers.small_server import WAYS, RawConnection, SmallServer, Way

PRODUCE, METADATA = 0, 3
Answer = Response | NoResponse


@dataclass
class Waiting:
    """A handler that accepts what is produced, and answers when a test says so."""

    at: Callable[[Waiting], None]  # looks after each request
    begun: list[int] = field(default_factory=list)
    open: list[tuple[asyncio.Future[None], int]] = field(default_factory=list)
    most: int = 0  # that were open at one time
    seen_open: dict[int, int] = field(default_factory=dict)  # when a request began
    throttle_ms: dict[int, int] = field(default_factory=dict)

    def __call__(self, request: Request) -> Answer | Accepted[Answer]:
        number = request.header.correlation_id
        self.begun.append(number)
        self.seen_open[number] = sum(not future.done() for future, _ in self.open)
        if request.header.api_key == METADATA:
            return self.answer(number)
        if request.frame[request.body_offset :] == b"at once":
            return self.answer(number)
        if request.frame[request.body_offset :] == b"no answer but the end":
            return NoResponse(close=True)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.open.append((future, number))
        self.most = max(self.most, self.seen_open[number] + 1)
        self.at(self)
        return Accepted(future, lambda: self.answer(number))

    def answer(self, number: int) -> Response:
        return Response([struct.pack(">i", number)], self.throttle_ms.get(number, 0))

    def awaited(self) -> list[asyncio.Future[None]]:
        """List what somebody still waits for."""
        return [future for future, _ in self.open if not future.done()]

    def settle(self, order: slice = slice(None)) -> None:
        """Answer all that is open, in another order if need be."""
        open_, self.open = self.open, []
        for future, _ in open_[order]:
            future.set_result(None)


def frame(number: int, key: int = PRODUCE, body: bytes = b"") -> bytes:
    content = struct.pack(">hhih", key, 0, number, -1) + body
    return struct.pack(">i", len(content)) + content


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def reset(connection: RawConnection) -> None:
    """Go, and let the other side know that no answer is read any more."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.socket.close()


def told(number: int) -> bytes:
    return struct.pack(">i", number)


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    chosen: Way = request.param
    return chosen


def test_they_begin_before_the_answers_which_keep_their_order(way: Way) -> None:
    def last_first(waiting: Waiting) -> None:
        if len(waiting.begun) == 5:
            waiting.settle(slice(None, None, -1))

    with SmallServer(Waiting(last_first), way) as server, server.connect() as connection:
        connection.send(b"".join(frame(n, body=b"x" * 3_000 * n) for n in range(5)))
        assert [connection.read_frame() for _ in range(5)] == [told(n) for n in range(5)]


def test_one_that_is_answered_at_once_waits_for_those_before_it(way: Way) -> None:
    def at_third(waiting: Waiting) -> None:
        asyncio.get_running_loop().call_later(0.02, waiting.settle)

    handler = Waiting(at_third)
    with SmallServer(handler, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2, body=b"at once") + frame(3))
        assert [connection.read_frame() for _ in range(3)] == [told(n) for n in (1, 2, 3)]
    assert handler.seen_open == {1: 0, 2: 1, 3: 1}


def test_another_request_begins_when_all_before_it_are_answered(way: Way) -> None:
    def later(waiting: Waiting) -> None:
        if len(waiting.begun) % 2 == 0:
            asyncio.get_running_loop().call_later(0.02, waiting.settle)

    handler = Waiting(later)
    with SmallServer(handler, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2) + frame(3, METADATA) + frame(4) + frame(5))
        # 4 is the fourth that begins, and 5 the fifth: the sixth lets it go.
        assert [connection.read_frame() for _ in range(4)] == [told(n) for n in (1, 2, 3, 4)]
        connection.send(frame(6))
        assert [connection.read_frame() for _ in range(2)] == [told(5), told(6)]
    assert handler.begun == [1, 2, 3, 4, 5, 6]
    assert handler.seen_open[3] == 0


def test_no_more_begin_than_the_line_holds(way: Way) -> None:
    def slowly(waiting: Waiting) -> None:
        if len(waiting.open) == LENGTH_MAX or len(waiting.begun) == count:
            asyncio.get_running_loop().call_later(0.02, waiting.settle)

    count = 3 * LENGTH_MAX - 1
    handler = Waiting(slowly)
    with SmallServer(handler, way) as server, server.connect() as connection:
        connection.send(b"".join(frame(n, body=b"x" * 100) for n in range(count)))
        assert [connection.read_frame() for _ in range(count)] == [told(n) for n in range(count)]
    assert handler.most == LENGTH_MAX


def test_a_half_closed_connection_gets_all_answers_and_is_closed(way: Way) -> None:
    def later(waiting: Waiting) -> None:
        if len(waiting.begun) == 3:
            asyncio.get_running_loop().call_later(0.05, waiting.settle)

    with SmallServer(Waiting(later), way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2) + frame(3))
        connection.socket.shutdown(1)
        assert [connection.read_frame() for _ in range(3)] == [told(n) for n in (1, 2, 3)]
        assert connection.is_closed_by_peer()


@pytest.mark.parametrize("wrong", ["size", "header", "refused", "error without an answer"])
def test_what_was_sent_before_a_wrong_frame_is_answered_before_the_end(
    way: Way, wrong: str
) -> None:
    def later(waiting: Waiting) -> None:
        if len(waiting.begun) == 2:
            asyncio.get_running_loop().call_later(0.05, waiting.settle)

    def handle(request: Request) -> Answer | Accepted[Answer]:
        if request.header.correlation_id == 3:
            raise ProtocolError("not served")
        return handler(request)

    handler = Waiting(later)
    last = {
        "size": b"\xff" * 8,
        "header": b"\0\0\0\2\0\0",
        "refused": frame(3) + frame(4),
        "error without an answer": frame(5, body=b"no answer but the end") + frame(6),
    }[wrong]
    with SmallServer(handle, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2) + last)
        assert [connection.read_frame() for _ in range(2)] == [told(1), told(2)]
        assert connection.is_closed_by_peer()
    assert handler.begun == [1, 2, 5][: 2 + (wrong == "error without an answer")]


def test_lines_of_many_connections_are_shorter_and_grow_again(way: Way) -> None:
    handler = Waiting(lambda _: None)
    count = 4 * TOTAL_MAX // LENGTH_MAX  # connections: each has a quarter of the longest line
    with SmallServer(handler, way) as server, ExitStack() as stack:
        connections = [stack.enter_context(server.connect()) for _ in range(count)]
        for connection in connections:
            connection.send(frame(0))
        wait_for(lambda: len(handler.open) == count)
        for connection in connections:
            connection.send(b"".join(frame(n) for n in range(1, LENGTH_MAX)))
        wait_for(lambda: len(handler.open) >= TOTAL_MAX)
        assert connections[0].stays_silent(0.05)
        assert len(handler.open) == TOTAL_MAX
        for connection in connections[1:]:
            reset(connection)
        wait_for(lambda: len(handler.awaited()) == LENGTH_MAX // 4)
        server.call_soon(lambda: handler.awaited()[0].set_result(None))
        assert connections[0].read_frame() == told(0)
        wait_for(lambda: len(handler.awaited()) == LENGTH_MAX - 1)


def test_a_connection_that_is_gone_lets_go_of_what_it_waited_for(way: Way) -> None:
    handler = Waiting(lambda _: None)
    with SmallServer(handler, way) as server:
        with server.connect() as connection:
            connection.send(frame(1) + frame(2) + frame(3))
            wait_for(lambda: len(handler.open) == 3)
            reset(connection)
        wait_for(lambda: not handler.awaited())
        with server.connect() as connection:
            connection.send(frame(4, METADATA))
            assert connection.read_frame() == told(4)


def test_a_bug_ends_the_connection_after_the_answers_before_it(way: Way) -> None:
    def bug() -> Answer:
        raise AssertionError("a bug")

    def later(waiting: Waiting) -> None:
        if len(waiting.begun) == 3:
            asyncio.get_running_loop().call_later(0.02, waiting.settle, slice(None, None, -1))

    def handle(request: Request) -> Answer | Accepted[Answer]:
        result = handler(request)
        if isinstance(result, Accepted) and request.header.correlation_id == 2:
            return Accepted(result.outcome, bug)
        return result

    handler = Waiting(later)
    with SmallServer(handle, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2) + frame(3))
        assert connection.read_frame() == told(1)
        assert connection.is_closed_by_peer()


def test_a_stop_lets_go_of_those_that_wait(way: Way) -> None:
    handler = Waiting(lambda _: None)
    with SmallServer(handler, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2))
        while len(handler.begun) < 2:
            time.sleep(0.001)
        started = time.monotonic()
    assert time.monotonic() - started < 2
    assert all(future.cancelled() for future, _ in handler.open)


def test_throttled_answers_leave_and_the_next_request_waits_for_the_longest(way: Way) -> None:
    def at_second(waiting: Waiting) -> None:
        if len(waiting.begun) == 2:
            waiting.settle()

    handler = Waiting(at_second, throttle_ms={1: 400, 2: 50})
    with SmallServer(handler, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2))
        assert [connection.read_frame() for _ in range(2)] == [told(1), told(2)]
        connection.send(frame(3, METADATA))
        assert connection.stays_silent(0.2)
        connection.socket.settimeout(5)
        assert connection.read_frame() == told(3)


async def test_a_broker_appends_all_that_came_before_one_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[str] = []
    real = file_system.RealFile.sync
    monkeypatch.setattr(
        file_system.RealFile, "sync", lambda file: (syncs.append(file.path), real(file))[1]
    )
    settings = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "kbroker.flush": "acks-all",
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", settings))
    await server.startup()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.end_points[0].port)
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    writer.write(request_of(19, 5, 1, CreateTopicsRequest(topics=[topic], timeout_ms=5_000)))
    await answer_from(reader)
    syncs.clear()

    writer.write(b"".join(request_of(0, 9, number, produce()) for number in range(40)))
    answers = [await answer_from(reader) for _ in range(40)]

    writer.close()
    await server.shutdown()
    assert [struct.unpack_from(">i", each)[0] for each in answers] == list(range(40))
    parts = [decode(ProduceResponse, 9, each[5:])[0].responses[0] for each in answers]
    outcomes = [(p.error_code, p.base_offset) for part in parts for p in part.partition_responses]
    assert outcomes == [(0, number) for number in range(40)]
    assert len([path for path in syncs if path.endswith(".log")]) < 20


def request_of(key: int, version: int, number: int, request: object) -> bytes:
    header = encode_request_header(RequestHeader(key, version, number, "test"))
    content = header + encode(request, version)  # type: ignore[arg-type]
    return struct.pack(">i", len(content)) + content


async def answer_from(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def produce() -> ProduceRequest:
    batch = build([Record(0, 1_700_000_000_000, b"k", b"v")])
    data = ProduceRequest.PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
