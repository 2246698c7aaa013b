"""Many requests at once on one connection: order of answers, frames cut anywhere, clients that do
not read.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import random
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from compat_tests.running.waiting import until
from kbroker.network.channel import Channel
from kbroker.network.response_writer import ResponseWriter
from kbroker.network.tls_wire import TlsWire
from kbroker.network.wire import SocketWire
from kbroker.protocol.messages import heartbeat, metadata  # noqa: F401  declares the keys used here
from kbroker.protocol.request import NoResponse, Request, Response
from kbroker.server.start.event_loop import EventLoopKind
from tests.fakes.brokers.small_server import LOOPS, WAYS, RawConnection, SmallServer, Way
from tests.fakes.requests.xor_wire import PRINCIPAL

HALF_A_HANDSHAKE = bytes.fromhex("1603010200010001fc0303")
METADATA, HEARTBEAT = 3, 12  # here: Heartbeat waits, Metadata does not


class FileRange:
    """A slice of a file, as the log hands it out."""

    def __init__(self, fd: int, position: int, size: int) -> None:
        self._fd = fd
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes:
        return os.pread(self._fd, self._size, self.position)


def echo(request: Request) -> Response | Awaitable[Response]:
    """Answers with the correlation id and the body."""
    answer = Response(
        [
            struct.pack(">i", request.header.correlation_id),
            bytes(request.frame[request.body_offset :]),
        ]
    )
    return _later(answer) if request.header.api_key == HEARTBEAT else answer


async def _later(answer: Response) -> Response:
    await asyncio.sleep(0.05)
    return answer


def frame(correlation_id: int, body: bytes = b"", key: int = METADATA) -> bytes:
    content = struct.pack(">hhih", key, 0, correlation_id, -1) + body
    return struct.pack(">i", len(content)) + content


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return struct.pack(">i", correlation_id) + body


@pytest.fixture(params=WAYS, ids=str, scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[SmallServer]:
    with SmallServer(echo, request.param) as small_server:
        yield small_server


@pytest.fixture
def connection(server: SmallServer) -> Iterator[RawConnection]:
    with server.connect() as raw:
        yield raw


def test_answers_keep_the_order_of_requests_when_the_first_one_waits(
    connection: RawConnection,
) -> None:
    connection.send(frame(101, key=HEARTBEAT) + frame(102) + frame(103, key=HEARTBEAT) + frame(104))
    assert [connection.read_frame() for _ in range(4)] == [answer(n) for n in (101, 102, 103, 104)]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_connections_that_end_are_no_work_for_the_collector_of_cycles(way: Way) -> None:
    kinds = {Channel, ResponseWriter, SocketWire, TlsWire}

    def parts() -> int:
        return sum(type(each) in kinds for each in gc.get_objects())

    with SmallServer(echo, way) as server:
        gc.collect()
        gc.disable()
        before = parts()  # which other tests may have left
        try:
            with server.connect() as connection:
                connection.send(frame(1))
                connection.read_frame()
            for sent in (b"", HALF_A_HANDSHAKE, frame(1)):
                with socket.create_connection(("127.0.0.1", server.port)) as stranger:
                    stranger.sendall(sent)
            until(lambda: parts() <= before)
        finally:
            gc.enable()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_requests_that_come_at_once_are_begun_in_one_turn_of_the_loop(way: Way) -> None:
    ended: list[None] = []  # of the turns since the first
    begun: list[int] = []

    def noted(request: Request) -> Response | Awaitable[Response]:
        asyncio.get_running_loop().call_soon(ended.append, None)
        begun.append(len(ended))
        return echo(request)

    with SmallServer(noted, way) as server, server.connect() as connection:
        connection.send(*(frame(n, bytes(1_000)) for n in range(5)))
        for _ in range(5):
            connection.read_frame()
    assert begun == [0] * 5


def test_thousands_of_pipelined_requests_are_answered_in_order(connection: RawConnection) -> None:
    count = 5_000
    data = b"".join(frame(n, b"x" * (n % 300)) for n in range(count))
    sender = threading.Thread(target=connection.send, args=(data,))
    sender.start()
    answers = [connection.read_frame() for _ in range(count)]
    sender.join()
    assert answers == [answer(n, b"x" * (n % 300)) for n in range(count)]


def test_pipelined_requests_behind_a_waiting_one_fill_the_buffer_and_stop_reading(
    connection: RawConnection,
) -> None:
    body = os.urandom(20_000)
    data = frame(0, key=HEARTBEAT) + b"".join(frame(n, body) for n in range(1, 200))
    sender = threading.Thread(target=connection.send, args=(data,))
    sender.start()
    answers = [connection.read_frame() for _ in range(200)]
    sender.join()
    assert answers == [answer(0), *(answer(n, body) for n in range(1, 200))]


@pytest.mark.parametrize("seed", range(4))
def test_frames_of_all_sizes_cut_at_random_points_arrive_whole(
    connection: RawConnection, seed: int
) -> None:
    chosen = random.Random(seed)
    sizes = [chosen.choice((0, 1, 100, 32_750, 32_768, 70_000, 1_500_000)) for _ in range(12)]
    bodies = [chosen.randbytes(size) for size in sizes]
    data = b"".join(frame(n, body) for n, body in enumerate(bodies))
    cuts = sorted(chosen.randrange(len(data)) for _ in range(60))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def send() -> None:
        for chunk in chunks:
            connection.send(chunk)
            time.sleep(0.0005)

    sender = threading.Thread(target=send)
    sender.start()
    answers = [connection.read_frame() for _ in bodies]
    sender.join()
    assert answers == [answer(n, body) for n, body in enumerate(bodies)]


def test_a_frame_far_beyond_the_first_buffer_is_answered(connection: RawConnection) -> None:
    body = os.urandom(9_000_000)
    sender = threading.Thread(target=connection.send, args=(frame(5, body),))
    sender.start()
    assert connection.read_frame() == answer(5, body)
    sender.join()


def test_a_half_closed_connection_still_gets_its_answers(connection: RawConnection) -> None:
    connection.send(frame(1, key=HEARTBEAT) + frame(2))
    connection.socket.shutdown(1)
    assert [connection.read_frame(), connection.read_frame()] == [answer(1), answer(2)]
    assert connection.is_closed_by_peer()


def test_a_half_closed_connection_gets_all_of_many_answers(connection: RawConnection) -> None:
    connection.send(b"".join(frame(n) for n in range(500)))
    connection.socket.shutdown(1)
    assert [connection.read_frame() for _ in range(500)] == [answer(n) for n in range(500)]
    assert connection.is_closed_by_peer()


def test_other_connections_are_answered_while_one_does_not_read(server: SmallServer) -> None:
    body = os.urandom(6_000_000)
    with server.connect() as slow, server.connect() as other:
        sender = threading.Thread(target=slow.send, args=(frame(1, body) + frame(2, body),))
        sender.start()
        other.send(frame(3))
        assert other.read_frame() == answer(3)
        assert [slow.read_frame(), slow.read_frame()] == [answer(1, body), answer(2, body)]
        sender.join()


@pytest.fixture(scope="module")
def log_file() -> Iterator[tuple[int, bytes]]:
    data = random.Random(1).randbytes(5_000_000)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "00000000000000000000.log"
        path.write_bytes(data)
        with path.open("rb") as file:
            yield file.fileno(), data


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_file_slices_leave_in_order_between_other_pieces(
    way: Way, log_file: tuple[int, bytes]
) -> None:
    fd, data = log_file

    def fetch(request: Request) -> Response:
        head = struct.pack(">i", request.header.correlation_id)
        first, second = FileRange(fd, 10, 3_000_000), FileRange(fd, 4_000_000, 500)
        return Response([head, first, b"between", second, FileRange(fd, 0, 0), memoryview(b"end")])

    content = data[10:3_000_010] + b"between" + data[4_000_000:4_000_500] + b"end"
    with SmallServer(fetch, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2) + frame(3))
        time.sleep(0.1)  # the answers do not fit into the socket by now
        answers = [connection.read_frame() for _ in range(3)]
    assert answers == [answer(n, content) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("protocol", "principal"), [("PLAINTEXT", "User:ANONYMOUS"), ("XOR", PRINCIPAL)]
)
def test_a_request_says_whom_the_wire_found_on_the_other_end(protocol: str, principal: str) -> None:
    def name(request: Request) -> Response:
        return Response([request.connection.principal.encode()])

    way = Way(EventLoopKind.UVLOOP, protocol)
    with SmallServer(name, way) as server, server.connect() as connection:
        connection.send(frame(1))
        assert connection.read_frame().decode() == principal


@pytest.mark.parametrize("way", LOOPS, ids=str)
def test_a_file_system_without_sendfile_is_read_instead(
    way: Way, log_file: tuple[int, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    fd, data = log_file

    def sendfile(*_: int) -> int:
        raise OSError(errno.EINVAL, "not on this file system")

    def fetch(request: Request) -> Response:
        return Response([b"head", FileRange(fd, 7, 2_000_000)])

    monkeypatch.setattr(os, "sendfile", sendfile)
    with SmallServer(fetch, way) as server, server.connect() as connection:
        connection.send(frame(1))
        assert connection.read_frame() == b"head" + data[7:2_000_007]


@pytest.mark.parametrize("way", LOOPS, ids=str)
@pytest.mark.parametrize(
    ("settings", "has_room"), [({}, True), ({"socket_send_buffer_bytes": 102_401}, False)]
)
def test_a_default_send_buffer_grows_for_large_answers_and_another_stays(
    way: Way,
    settings: dict[str, int],
    has_room: bool,
    log_file: tuple[int, bytes],
) -> None:
    fd, data = log_file
    second_began = threading.Event()  # once the first answer has left for the socket

    def fetch(request: Request) -> Response:
        if request.header.correlation_id == 2:
            second_began.set()
        return Response([b"head", FileRange(fd, 7, 400 * 1024)])

    with SmallServer(fetch, way, **settings) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2))
        assert second_began.wait(5 if has_room else 0.3) == has_room
        answers = [connection.read_frame() for _ in range(2)]
    assert answers == [b"head" + data[7 : 7 + 400 * 1024]] * 2


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_file_that_ends_before_its_slice_closes_the_connection(
    way: Way, log_file: tuple[int, bytes]
) -> None:
    fd, data = log_file

    def fetch(request: Request) -> Response:
        return Response([b"head", FileRange(fd, len(data) - 5, 10)])

    with SmallServer(fetch, way) as server, server.connect() as connection:
        connection.send(frame(1))
        with pytest.raises(ConnectionError):
            connection.read_frame()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("close", [True, False])
def test_no_response_closes_or_goes_on(way: Way, close: bool) -> None:
    def produce(request: Request) -> Response | NoResponse:
        if request.header.correlation_id == 1:
            return NoResponse(close=close)
        return Response([struct.pack(">i", request.header.correlation_id)])

    with SmallServer(produce, way) as server, server.connect() as connection:
        connection.send(frame(1) + frame(2))
        if close:
            assert connection.is_closed_by_peer()
        else:
            assert connection.read_frame() == answer(2)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_stop_with_idle_and_waiting_connections_takes_less_than_half_a_second(
    way: Way,
) -> None:
    async def forever() -> Response:
        await asyncio.sleep(3600)
        return Response([b""])

    def wait(request: Request) -> Awaitable[Response]:
        return forever()

    with SmallServer(wait, way) as server:
        connections = [server.connect() for _ in range(50)]
        connections[0].send(frame(1))
        time.sleep(0.05)
        started = time.monotonic()
    assert time.monotonic() - started < 0.5
    assert all(connection.is_closed_by_peer() for connection in connections)
    for connection in connections:
        connection.socket.close()


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(("body_bytes", "buffers_held"), [(100, 0), (20_000, 5)])
def test_waiting_requests_hold_a_buffer_only_when_they_are_large(
    way: Way, body_bytes: int, buffers_held: int
) -> None:
    async def forever() -> Response:
        await asyncio.sleep(3600)
        return Response([b""])

    with SmallServer(lambda request: forever(), way) as server:
        connections = [server.connect() for _ in range(5)]
        for connection in connections:
            connection.send(frame(1, b"x" * body_bytes))
        time.sleep(0.1)
        assert server.server is not None
        channels = list(server.server.processor.channels)
        assert sum(channel.holds_buffer for channel in channels) == buffers_held
    for connection in connections:
        connection.socket.close()


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_more_connections_than_the_address_may_hold_are_closed(way: Way) -> None:
    with SmallServer(echo, way, max_connections_per_ip=2) as server:
        first, second, third = server.connect(), server.connect(), server.connect()
        with first, second, third:
            second.send(frame(1))
            assert second.read_frame() == answer(1)
            assert third.is_closed_by_peer()


@pytest.mark.parametrize("way", LOOPS, ids=str)
def test_connections_beyond_the_maximum_wait_until_one_is_closed(way: Way) -> None:
    with SmallServer(echo, way, max_connections=1) as server:
        first, second = server.connect(), server.connect()
        with first, second:
            first.send(frame(1))
            assert first.read_frame() == answer(1)
            second.send(frame(2))
            assert second.stays_silent(0.15)
            first.socket.close()
            assert second.read_frame() == answer(2)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_idle_connection_is_closed_and_a_waiting_one_is_not(way: Way) -> None:
    async def slowly() -> Response:
        await asyncio.sleep(0.8)
        return Response([b"done"])

    def wait(request: Request) -> Awaitable[Response]:
        return slowly()

    small_server = SmallServer(wait, way, connections_max_idle_ms=200)
    with small_server as server, server.connect() as waiting, server.connect() as idle:
        waiting.send(frame(1))
        assert idle.is_closed_by_peer()
        assert waiting.read_frame() == b"done"


def test_a_request_that_waits_is_finished_before_the_next_starts_though_answers_are_stuck(
    tmp_path: Path,
) -> None:
    in_work: list[int] = []
    overlaps: list[int] = []

    async def slow(correlation_id: int) -> Response:
        in_work.append(correlation_id)
        overlaps.append(len(in_work))
        await asyncio.sleep(0.005)
        in_work.remove(correlation_id)
        return Response([struct.pack(">i", correlation_id)])

    def handle(request: Request) -> Response | Awaitable[Response]:
        correlation_id = request.header.correlation_id
        if request.header.api_key == HEARTBEAT:
            return slow(correlation_id)
        # Small enough to be held back, large enough in number to fill the socket.
        return Response([struct.pack(">i", correlation_id), bytes(60_000)])

    with SmallServer(handle, LOOPS[1]) as server, server.connect() as raw:
        raw.send(b"".join(frame(n, key=METADATA if n % 8 else HEARTBEAT) for n in range(1, 400)))
        answers = [raw.read_frame()[:4] for _ in range(1, 400)]

    assert answers == [struct.pack(">i", n) for n in range(1, 400)]
    assert max(overlaps) == 1


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_client_that_sends_no_more_still_gets_every_answer(way: Way) -> None:
    def handle(request: Request) -> Response | Awaitable[Response]:
        answer = Response([struct.pack(">i", request.header.correlation_id), bytes(60_000)])
        # While the first one waits, the rest and the end of the stream arrive.
        return _later(answer) if request.header.api_key == HEARTBEAT else answer

    with (
        SmallServer(handle, way, socket_send_buffer_bytes=16_384) as server,
        server.connect() as raw,
    ):
        raw.send(frame(0, key=HEARTBEAT) + b"".join(frame(n) for n in range(1, 6)))
        raw.socket.shutdown(socket.SHUT_WR)
        answers = [raw.read_frame()[:4] for _ in range(6)]

        assert answers == [struct.pack(">i", n) for n in range(6)]
        assert raw.is_closed_by_peer()
