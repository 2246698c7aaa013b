from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from types import SimpleNamespace
from typing import cast

import pytest

from kbroker.memory_room import MemoryRoom
from kbroker.network.answer_line import LENGTH_MAX, TOTAL_MAX, AnswerLines
from kbroker.network.channel import Channel, ChannelOwner
from kbroker.network.receive_buffers import ReceiveBuffers
from kbroker.network.request_channel import RequestChannel
from kbroker.network.wire import SocketWire
from kbroker.protocol.request import Response, ShortWay
from tests.fakes.requests.memory_wire import MemoryWire
from tests.fakes.requests.recording_replier import RecordingReplier, local_connection, request_of
from tests.fakes.running.waiting import until

MIB = 1 << 20


async def test_an_idle_client_that_leaves_holds_no_buffer_until_its_turn_comes() -> None:
    owner = owner_of(RequestChannel(1))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(owner, SocketWire(ours, local_connection()))
        channel.get_buffer(-1)  # as the event loop does before it learns of the end
        assert channel.holds_buffer

        channel.eof_received()

        assert not channel.holds_buffer


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x20half"])
async def test_a_client_that_leaves_without_a_whole_request_is_let_go_though_the_queue_is_full(
    sent: bytes,
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = await opened(ours, RequestChannel(0))
        theirs.sendall(sent)
        theirs.close()

        await until(lambda: channel.is_closed)


async def test_a_client_that_leaves_after_a_request_is_kept_until_the_queue_takes_it() -> None:
    queue = RequestChannel(1)
    queue.send(RecordingReplier(), request_of(3, 0, b""))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = await opened(ours, queue)
        theirs.sendall(b"\0\0\0\x0a" + b"\0\x12\0\0\0\0\0\x08\xff\xff")
        theirs.shutdown(socket.SHUT_WR)
        await until(lambda: channel.bytes_in == 14)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not channel.is_closed
        taken: list[int] = []

        queue.attach(lambda replier, request: taken.append(request.header.correlation_id))

        assert taken == [7, 8]
        channel.close()


async def test_a_request_carried_out_for_a_client_that_has_left_takes_no_place_in_line() -> None:
    lines, outcomes = AnswerLines(), []
    for _ in range(TOTAL_MAX // LENGTH_MAX + 1):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            channel = await opened(ours, RequestChannel(1), lines)
            channel.connection_lost(None)

            outcomes.append(asyncio.get_running_loop().create_future())
            answer = channel.accept(outcomes[-1])

            assert answer.is_closed
            channel.close()

    assert all(outcome.cancelled() for outcome in outcomes)
    assert lines.length_max == LENGTH_MAX


async def test_a_large_frame_waits_for_the_memory_of_another_and_comes_whole() -> None:
    """Both together do not fit, and the first client stops amid its frame."""
    buffers, queue = ReceiveBuffers(2 * MIB), RequestChannel(9)
    taken: list[bytes] = []
    queue.attach(lambda replier, request: taken.append(bytes(request.frame[10:])))
    (ours, theirs), (others, second) = socket.socketpair(), socket.socketpair()
    first_body, second_body = (bytes([number]) * (4 * MIB) for number in (1, 2))
    with ours, theirs, others, second:
        channels = [
            await opened(end, queue, buffers=buffers, max_frame_bytes=5 * MIB)
            for end in (ours, others)
        ]
        loop = asyncio.get_running_loop()
        theirs.setblocking(False)
        second.setblocking(False)
        await loop.sock_sendall(theirs, frame_of(first_body)[:-1])
        await until(lambda: channels[0].bytes_in == len(frame_of(first_body)) - 1)
        sending = asyncio.ensure_future(loop.sock_sendall(second, frame_of(second_body)))
        await until(lambda: channels[0].is_wanted)
        assert taken == []

        await loop.sock_sendall(theirs, first_body[-1:])
        await until(lambda: len(taken) == 1)
        channels[0].close()
        await sending
        await until(lambda: len(taken) == 2)

        assert taken == [first_body, second_body]
        channels[1].close()


async def test_an_answer_that_is_not_read_is_counted_until_it_has_left() -> None:
    queue, answer, room = RequestChannel(9), bytes(8 * MIB), MemoryRoom(MIB)
    queue.attach(lambda replier, request: replier.complete(Response([answer])))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = await opened(ours, queue, room=room)
        loop = asyncio.get_running_loop()
        theirs.setblocking(False)
        await loop.sock_sendall(theirs, frame_of(b""))
        await until(lambda: channel.is_busy)
        assert 0 < room.taken_bytes <= len(answer)

        left = len(answer) + 4
        while left:
            left -= len(await loop.sock_recv(theirs, left))

        await until(lambda: not channel.is_busy)
        assert room.taken_bytes == 0
        channel.close()


async def test_a_client_that_pauses_for_days_is_idle_and_leaves_nothing_when_it_is_closed() -> None:
    queue = RequestChannel(9)
    queue.attach(lambda replier, request: replier.complete(Response([b"a"], 10**9)))
    wire = MemoryWire(local_connection())
    channel = Channel(owner_of(queue), wire)
    await wire.open(channel)

    wire.receive(memoryview(2 * frame_of(b"")))

    assert (bytes(wire.sent), channel.requests) == (b"\0\0\0\1a", 1)
    assert not channel.is_busy
    assert not channel.awaits_rest_of_frame
    left = weakref.ref(wire)
    channel.connection_lost(None)
    del channel, wire
    gc.collect()
    assert left() is None


async def test_answers_of_the_short_way_leave_in_order_around_a_large_one() -> None:
    answers: list[Response | bytes] = [
        b"\0\0\0\1a",
        Response([b"LL", b"L" * 99_998]),
        b"\0\0\0\1b",
        Response([b"c"]),
        Response([b"d", b"e"]),
        b"\0\0\0\1f",
    ]
    queue = RequestChannel(9)
    queue.attach(lambda replier, request: None, lambda replier, result: replier.complete(result))
    wire = MemoryWire(local_connection())
    wire.connection.short_way = cast(
        ShortWay, SimpleNamespace(is_viewed=False, answer=lambda *_: answers.pop(0))
    )
    channel = Channel(owner_of(queue), wire)
    await wire.open(channel)

    wire.receive(memoryview(6 * frame_of(b"")))

    assert bytes(wire.sent).replace(b"L" * 100_000, b"L") == (
        b"\0\0\0\1a\0\1\x86\xa0L\0\0\0\1b\0\0\0\1c\0\0\0\2de\0\0\0\1f"
    )


def frame_of(body: bytes) -> bytes:
    header = b"\0\x12\0\0\0\0\0\x08\xff\xff"
    return (len(header) + len(body)).to_bytes(4, "big") + header + body


async def opened(
    ours: socket.socket,
    queue: RequestChannel,
    lines: AnswerLines | None = None,
    buffers: ReceiveBuffers | None = None,
    max_frame_bytes: int = MIB,
    room: MemoryRoom | None = None,
) -> Channel:
    ours.setblocking(False)
    wire = SocketWire(ours, local_connection())
    channel = Channel(owner_of(queue, lines, buffers, max_frame_bytes, room), wire)
    await wire.open(channel)
    return channel


def owner_of(
    queue: RequestChannel,
    lines: AnswerLines | None = None,
    buffers: ReceiveBuffers | None = None,
    max_frame_bytes: int = MIB,
    room: MemoryRoom | None = None,
) -> ChannelOwner:
    owner = SimpleNamespace(
        buffers=buffers or ReceiveBuffers(MIB),
        lines=lines or AnswerLines(),
        room=room or MemoryRoom(MIB),
        request_channel=queue,
        max_frame_bytes=max_frame_bytes,
        channel_opened=lambda _: None,
        channel_closed=lambda _: None,
    )
    return cast(ChannelOwner, owner)
