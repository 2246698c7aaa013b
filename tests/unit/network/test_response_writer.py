"""What the sending half of a connection does with answers, over a real pair of sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kbroker.network.response_writer import ResponseWriter


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

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.ours = ours
        self.drained = asyncio.Event()
        self.writer = ResponseWriter(
            ours, asyncio.get_running_loop(), self.drained.set, lambda error: None
        )

    def received(self) -> bytes:
        chunks = []
        try:
            while chunk := self.peer.recv(1 << 20):
                chunks.append(chunk)
        except BlockingIOError:
            pass
        return b"".join(chunks)

    def close(self) -> None:
        self.writer.close()
        self.ours.close()
        self.peer.close()


def with_pair(check: Callable[[Pair], None]) -> None:
    async def main() -> None:
        pair = Pair()
        try:
            check(pair)
        finally:
            pair.close()

    asyncio.run(main())


def test_an_answer_leaves_at_once() -> None:
    def check(pair: Pair) -> None:
        assert pair.writer.write([b"answer"])
        assert pair.received() == frame(b"answer")

    with_pair(check)


def test_held_answers_leave_together_in_their_order() -> None:
    def check(pair: Pair) -> None:
        pair.writer.hold()
        assert pair.writer.write([b"first"])
        assert pair.writer.write([b"sec", b"ond"])
        assert pair.received() == b""

        assert pair.writer.release()
        assert pair.received() == frame(b"first") + frame(b"second")

    with_pair(check)


def test_a_file_slice_leaves_after_the_answers_held_before_it(tmp_path: Path) -> None:
    def check(pair: Pair) -> None:
        pair.writer.hold()
        pair.writer.write([b"first"])
        assert pair.writer.write([b"head", Slice(tmp_path / "log", b"records" * 10)])

        assert pair.received() == frame(b"first") + frame(b"head" + b"records" * 10)

    with_pair(check)


def test_release_without_held_answers_tells_whether_the_peer_is_behind() -> None:
    def check(pair: Pair) -> None:
        assert pair.writer.release()
        assert not pair.writer.write([bytes(8 << 20)])
        assert not pair.writer.release()

    with_pair(check)


@pytest.mark.parametrize("size", [100, 40_000])
def test_what_is_written_while_the_peer_is_behind_waits_its_turn(size: int) -> None:
    async def main() -> None:
        pair = Pair()
        assert not pair.writer.write([b"a" * (4 << 20)])
        assert not pair.writer.write([b"b" * size])
        received = b""
        expected = frame(b"a" * (4 << 20)) + frame(b"b" * size)
        while len(received) < len(expected):
            received += pair.received()
            await asyncio.sleep(0)
        await asyncio.wait_for(pair.drained.wait(), 5)
        assert received == expected
        pair.close()

    asyncio.run(main())


def test_nothing_held_leaves_after_close() -> None:
    def check(pair: Pair) -> None:
        pair.writer.hold()
        pair.writer.write([b"lost"])
        pair.writer.close()

        assert pair.writer.release()
        assert pair.received() == b""

    with_pair(check)
