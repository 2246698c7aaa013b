"""What the sending half of a connection does with answers, over a real pair of sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.network.response_writer import ResponseWriter
from kbroker.network.wire import SocketWire
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.xor_wire import Pad, XorWire

over_both = pytest.mark.parametrize("make_wire", [SocketWire, XorWire])
NARROW_BYTES, WIDE_BYTES = 16 * 1024, 64 * 1024


class Slice:
    """A file slice as the log hands it out."""

    def __init__(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        self._fd = os.open(path, os.O_RDONLY)
        self.position = 0
        self._size = len(content)

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes:
        return os.pread(self._fd, self._size, 0)


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Pair:
    """A writer on one end of a socket pair, and the other end."""

    def __init__(
        self, wide_buffer_bytes: int = 0, make_wire: Callable[..., Any] = SocketWire
    ) -> None:
        self.pad = Pad() if make_wire is XorWire else None
        ours, self.peer = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW_BYTES)
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.ours = ours
        self.drained = asyncio.Event()
        self.wire = make_wire(ours, local_connection(), wide_buffer_bytes)
        self.writer = ResponseWriter(self.wire, self.drained.set, lambda error: None)

    @property
    def send_buffer_bytes(self) -> int:
        return self.ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def received(self) -> bytes:
        chunks = []
        try:
            while chunk := self.peer.recv(1 << 20):
                chunks.append(self.pad.turn(chunk) if self.pad else chunk)
        except BlockingIOError:
            pass
        return b"".join(chunks)

    def close(self) -> None:
        self.writer.close()
        self.ours.close()
        self.peer.close()


@pytest.fixture
def make_wire() -> Callable[..., Any]:
    return SocketWire


@pytest.fixture
def wide_buffer_bytes() -> int:
    """The size to which the send buffer may grow; 0 leaves it as it is."""
    return 0


@pytest.fixture
async def pair(wide_buffer_bytes: int, make_wire: Callable[..., Any]) -> AsyncIterator[Pair]:
    pair = Pair(wide_buffer_bytes, make_wire)
    yield pair
    pair.close()


@pytest.fixture
def calls() -> list[bytes]:
    """The bytes that the wire of `writer` was given, call for call."""
    return []


@pytest.fixture
async def writer(pair: Pair, calls: list[bytes], monkeypatch: pytest.MonkeyPatch) -> ResponseWriter:
    def taken(data: Any, *flags: int) -> int:
        calls.append(bytes(data))
        return len(data)

    monkeypatch.setattr(pair.wire, "send", taken)
    return ResponseWriter(pair.wire, pair.drained.set, lambda error: None)


@over_both
async def test_an_answer_leaves_at_once(pair: Pair) -> None:
    assert pair.writer.write([b"answer"])
    assert pair.received() == frame(b"answer")


@over_both
async def test_held_answers_leave_together_in_their_order(pair: Pair) -> None:
    pair.writer.is_holding = True
    assert pair.writer.write([b"first"])
    assert pair.writer.write([b"sec", b"ond"])
    assert pair.received() == b""

    assert pair.writer.release()
    assert pair.received() == frame(b"first") + frame(b"second")


@over_both
@pytest.mark.parametrize("size", [70, 40_000])
async def test_a_file_slice_leaves_after_the_answers_held_before_it(
    tmp_path: Path, size: int, pair: Pair
) -> None:
    pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)
    content = os.urandom(size)
    pair.writer.is_holding = True
    pair.writer.write([b"first"])
    assert pair.writer.write([b"head", Slice(tmp_path / "log", content)])
    assert pair.writer.release()

    assert pair.received() == frame(b"first") + frame(b"head" + content)


async def test_a_small_slice_leaves_with_its_answer_in_one_call(
    tmp_path: Path, calls: list[bytes], writer: ResponseWriter
) -> None:
    content = os.urandom(10_000)
    nothing = Slice(tmp_path / "empty", b"")

    assert writer.write([b"head", Slice(tmp_path / "log", content), b"and", nothing, b"tail"])

    assert calls == [frame(b"head" + content + b"and" + b"tail")]


async def test_small_slices_that_are_held_leave_before_they_are_many(
    tmp_path: Path, calls: list[bytes], writer: ResponseWriter
) -> None:
    content = os.urandom(20_000)
    writer.is_holding = True
    for _ in range(5):
        assert writer.write([b"head", Slice(tmp_path / "log", content)])
    held = sum(map(len, calls))
    writer.release()

    assert held == 4 * len(frame(b"head" + content))
    assert b"".join(calls) == 5 * frame(b"head" + content)


@pytest.mark.parametrize("size", [10_000, 40_000])
async def test_a_file_that_was_cut_short_fails_the_connection(
    tmp_path: Path, size: int, pair: Pair
) -> None:
    cut = Slice(tmp_path / "log", bytes(size))
    os.truncate(tmp_path / "log", 0)

    with pytest.raises(OSError, match="ends before the slice"):
        pair.writer.write([b"head", cut])


async def test_nothing_of_a_small_answer_leaves_if_its_file_was_cut_short(
    tmp_path: Path, pair: Pair
) -> None:
    cut = Slice(tmp_path / "log", bytes(10_000))
    os.truncate(tmp_path / "log", 9_999)

    with pytest.raises(OSError, match="ends before the slice"):
        pair.writer.write([b"head", cut])
    assert pair.received() == b""


@over_both
async def test_release_without_held_answers_tells_whether_the_peer_is_behind(pair: Pair) -> None:
    assert pair.writer.release()
    assert not pair.writer.write([bytes(8 << 20)])
    assert not pair.writer.release()


@over_both
@pytest.mark.parametrize("size", [100, 40_000])
async def test_what_is_written_while_the_peer_is_behind_waits_its_turn(
    size: int, pair: Pair
) -> None:
    assert not pair.writer.write([b"a" * (4 << 20)])
    assert not pair.writer.write([b"b" * size])
    received = b""
    expected = frame(b"a" * (4 << 20)) + frame(b"b" * size)
    while len(received) < len(expected):
        received += pair.received()
        await asyncio.sleep(0)
    await asyncio.wait_for(pair.drained.wait(), 5)
    assert received == expected


@over_both
async def test_nothing_held_leaves_after_close(pair: Pair) -> None:
    pair.writer.is_holding = True
    pair.writer.write([b"lost"])
    pair.writer.close()

    assert pair.writer.release()
    assert pair.received() == b""


@pytest.mark.parametrize("wide_buffer_bytes", [WIDE_BYTES])
async def test_a_slice_that_fills_the_socket_gets_it_a_larger_buffer_once(
    tmp_path: Path, pair: Pair
) -> None:
    narrow_bytes = pair.send_buffer_bytes
    content = os.urandom(1 << 20)

    assert not pair.writer.write([b"head", Slice(tmp_path / "log", content)])
    assert pair.send_buffer_bytes > narrow_bytes
    pair.ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW_BYTES)
    assert not pair.writer.write([b"head", Slice(tmp_path / "log", content), b"tail"])

    expected = frame(b"head" + content) + frame(b"head" + content + b"tail")
    received = b""
    while len(received) < len(expected):
        received += pair.received()
        await asyncio.sleep(0)
    assert received == expected
    await asyncio.wait_for(pair.drained.wait(), 5)
    assert not pair.writer.write([Slice(tmp_path / "log", content)])
    assert pair.send_buffer_bytes == narrow_bytes


@pytest.mark.parametrize(("wide_buffer_bytes", "has_left"), [(0, False), (1 << 20, True)])
async def test_an_answer_that_just_fits_into_the_larger_buffer_has_left(
    tmp_path: Path, has_left: bool, pair: Pair
) -> None:
    answer = [b"head", Slice(tmp_path / "log", os.urandom(200 * 1024))]

    assert pair.writer.write(answer) is has_left


@pytest.mark.parametrize("wide_buffer_bytes", [WIDE_BYTES])
async def test_an_answer_in_memory_leaves_the_buffer_as_it_is(pair: Pair) -> None:
    narrow_bytes = pair.send_buffer_bytes
    assert not pair.writer.write([bytes(1 << 20)])
    assert pair.send_buffer_bytes == narrow_bytes


async def test_a_buffer_that_is_not_to_grow_stays(tmp_path: Path, pair: Pair) -> None:
    narrow_bytes = pair.send_buffer_bytes
    assert not pair.writer.write([Slice(tmp_path / "log", bytes(1 << 20))])
    assert pair.send_buffer_bytes == narrow_bytes


async def test_of_many_small_pieces_no_long_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair()
    sent: list[int] = []
    send = pair.wire.send

    def noted(data: Any, *flags: int) -> int:
        sent.append(len(data))
        return int(send(data, *flags))

    monkeypatch.setattr(pair.wire, "send", noted)
    writer = ResponseWriter(pair.wire, pair.drained.set, lambda error: None)
    pieces: list[Any] = [bytes([number % 256]) * 10_000 for number in range(100)]

    writer.write(pieces)
    received = bytearray()
    while len(received) < 1_000_004:
        await asyncio.sleep(0)
        received += pair.received()

    assert bytes(received) == frame(b"".join(pieces))
    assert max(sent) <= 64 * 1024 + 4
    pair.close()
