"""Sends batches to one broker: many partitions in a request, several requests under way."""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from compat_tests.batches.generating import Generated

_ACKS, _TIMEOUT_MS = 1, 30_000
_IN_FLIGHT = 8
_NULLABLE_ID = 3  # the first version with a transactional id


class Answer(NamedTuple):
    """What a broker says of one batch."""

    code: int
    base_offset: int
    has_time: bool  # the broker says when it was appended
    bad_records: tuple[int, ...]

    @property
    def text(self) -> str:
        """All but the offset."""
        told = f", records {list(self.bad_records)}" if self.bad_records else ""
        return f"{self.code}{told}{', with a time' if self.has_time else ''}"


class Request(NamedTuple):
    """Batches for partitions of one topic, one each."""

    topic: str
    partitions: tuple[int, ...]
    batches: tuple[Generated, ...]

    def frame(self) -> bytes:
        version = self.batches[0].version
        topic = self.topic.encode()
        parts = [struct.pack(">hhi3s", 0, version, 1, b"\0\1h")]
        if version >= _NULLABLE_ID:
            parts.append(b"\xff\xff")
        parts.append(struct.pack(">hiih", _ACKS, _TIMEOUT_MS, 1, len(topic)) + topic)
        parts.append(struct.pack(">i", len(self.batches)))
        for partition, each in zip(self.partitions, self.batches, strict=True):
            parts += (struct.pack(">ii", partition, len(each.data)), each.data)
        whole = b"".join(parts)
        return struct.pack(">i", len(whole)) + whole


class Sender:
    """One connection."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._file = self._socket.makefile("rb")

    def send(self, requests: Iterable[Request]) -> list[list[Answer]]:
        """The answers to each request, in the order of its batches."""
        answers: list[list[Answer]] = []
        waiting: deque[Request] = deque()
        for request in requests:
            if len(waiting) >= _IN_FLIGHT:
                answers.append(self._receive(waiting.popleft()))
            self._socket.sendall(request.frame())
            waiting.append(request)
        answers += [self._receive(request) for request in waiting]
        return answers

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _receive(self, request: Request) -> list[Answer]:
        try:
            (size,) = struct.unpack(">i", self._file.read(4))
        except (struct.error, OSError) as error:
            odd = [each.label for each in request.batches]
            raise ConnectionError(f"no answer to {request.topic}: {odd}") from error
        found = dict(_answers(self._file.read(size), request.batches[0].version))
        return [found[partition] for partition in request.partitions]


def _answers(frame: bytes, version: int) -> Iterable[tuple[int, Answer]]:
    at = 8
    (length,) = struct.unpack_from(">h", frame, at)
    at += 2 + length
    (count,) = struct.unpack_from(">i", frame, at)
    at += 4
    for _ in range(count):
        partition, code, base_offset, time_ms = struct.unpack_from(">ihqq", frame, at)
        at += 22
        bad: Sequence[int] = ()
        if version >= _NULLABLE_ID:
            bad, at = _record_errors(frame, at + 8)
        yield partition, Answer(code, base_offset, time_ms != -1, tuple(bad))


def _record_errors(frame: bytes, at: int) -> tuple[list[int], int]:
    """The indexes of bad records; the position after them and the message."""
    (count,) = struct.unpack_from(">i", frame, at)
    at += 4
    bad = []
    for _ in range(count):
        bad.append(struct.unpack_from(">i", frame, at)[0])
        at = _behind_text(frame, at + 4)
    return bad, _behind_text(frame, at)


def _behind_text(frame: bytes, at: int) -> int:
    (length,) = struct.unpack_from(">h", frame, at)
    return at + 2 + max(0, length)
