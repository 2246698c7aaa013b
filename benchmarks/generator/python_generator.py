"""`generator.c` in Python, for machines without a C compiler: the same arguments, the same line."""

from __future__ import annotations

import selectors
import socket
import struct
import sys
import time
from collections import deque
from itertools import count as numbers
from pathlib import Path

from fastcrc.crc32 import iscsi

_SIZE = struct.Struct(">i")
_OFFSET = struct.Struct(">q")
_CORRELATION_ID, _ANSWERED_ID = 8, 4  # in requests, in answers
_CRC, _CHECKED, _BASE_SEQUENCE, _RECORD_COUNT = 17, 21, 53, 57  # in a batch
_READ_BYTES = 1 << 20
_SECOND_NS = 1_000_000_000


class Connection:
    """A connection on which answers arrive in order."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = bytearray()
        self._sent = numbers()
        self._answered = numbers()

    def request(self, frame: bytes | bytearray) -> bytes:
        """The frame with the next correlation id."""
        number = _SIZE.pack(next(self._sent))
        return b"".join((frame[:_CORRELATION_ID], number, frame[_CORRELATION_ID + 4 :]))

    def receive(self, error_at: int) -> list[int]:
        """Take what has arrived, once: the sizes of whole answers, their own bytes of size included."""
        got = self.socket.recv(_READ_BYTES)
        if not got:
            sys.exit("the broker closed a connection")
        self._rest += got
        at, sizes = 0, []
        while len(self._rest) >= at + 4:
            size = 4 + _SIZE.unpack_from(self._rest, at)[0]
            if len(self._rest) < at + size:
                break
            if _SIZE.unpack_from(self._rest, at + _ANSWERED_ID)[0] != next(self._answered):
                sys.exit("an answer is out of order")
            if error_at and any(self._rest[at + error_at : at + error_at + 2]):
                sys.exit("an answer has an error")
            sizes.append(size)
            at += size
        del self._rest[:at]
        return sizes


def _numbered(frame: bytes, batch_at: int, request: int) -> bytearray:
    """A frame whose batch has the sequence of that request, and its checksum."""
    changed = bytearray(frame)
    batch = memoryview(changed)[batch_at:]
    end = _SIZE.unpack_from(batch, 8)[0] + 12
    sequence = request * _SIZE.unpack_from(batch, _RECORD_COUNT)[0] & 0x7FFFFFFF
    _SIZE.pack_into(batch, _BASE_SEQUENCE, sequence)
    struct.pack_into(">I", batch, _CRC, iscsi(bytes(batch[_CHECKED:end])))
    return changed


class Sender:
    """Requests that take turns over connections."""

    def __init__(
        self, address: tuple[str, int], frames: list[bytes], words: dict[str, str]
    ) -> None:
        self._frames = frames
        self._error_at, self._batch_at = int(words["error_at"]), int(words["batch_at"])
        self._rising_at = int(words["rising_at"])
        self.sent = int(words["first"])
        self._selector = selectors.DefaultSelector()
        self._connections: list[Connection] = []
        count = int(words["connections"])
        for _ in range(count):
            connection = Connection(address)
            self._connections.append(connection)
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
            if (
                count > 1
            ):  # else some wait for the broker to accept them when it has accepted others
                self._send_next(connection)
                while not connection.receive(self._error_at):
                    continue

    def send(self, requests: int, in_flight: int, seconds: int = 0) -> int:
        """Send so many, for `seconds` at most unless that is 0: how many were answered."""
        until = time.monotonic() + seconds if seconds else float("inf")
        connections = self._connections
        idle = deque(connections * -(-in_flight // len(connections)))
        answered = pending = 0
        while True:
            while pending < in_flight and answered + pending < requests:
                self._send_next(idle.popleft())
                pending += 1
            if not pending:
                return answered
            for key, _ in self._selector.select():
                for _ in key.data.receive(self._error_at):
                    idle.append(key.data)
                    answered, pending = answered + 1, pending - 1
            if time.monotonic() > until:
                requests = 0

    def _send_next(self, connection: Connection) -> None:
        frame = self._frames[self.sent % len(self._frames)]
        if self._batch_at >= 0:
            frame = _numbered(frame, self._batch_at, self.sent)
        self.sent += 1
        if self._rising_at:
            frame = bytearray(frame)
            _SIZE.pack_into(frame, self._rising_at, self.sent)
        connection.socket.sendall(connection.request(frame))


def _send(address: tuple[str, int], frames: list[bytes], words: dict[str, str]) -> list[int]:
    sender = Sender(address, frames, words)
    cpu, begun = _cpu_of_brokers(words), time.monotonic_ns()
    answered = sender.send(int(words["requests"]), int(words["in_flight"]), int(words["seconds"]))
    return [answered, time.monotonic_ns() - begun, _cpu_of_brokers(words) - cpu, sender.sent]


def _deliver(address: tuple[str, int], frames: list[bytes], words: dict[str, str]) -> list[int]:
    value = {name: int(word) for name, word in words.items() if name != "pids"}
    producer, consumer = Connection(address), Connection(address)
    selector = selectors.DefaultSelector()
    for each in (producer, consumer):
        selector.register(each.socket, selectors.EVENT_READ, each)
    records, per_s, offset = value["requests"], value["per_s"], value["offset"]
    began: list[int] = []
    took: list[int] = []
    acknowledged, cpu, begun = 0, _cpu_of_brokers(words), time.monotonic_ns()
    until = begun + value["seconds"] * _SECOND_NS
    consumer.socket.sendall(consumer.request(_fetch(frames[1], value, offset)))
    while len(took) < records or acknowledged < records:
        if begun < until < time.monotonic_ns():
            records = len(began)
        due = begun + ((len(began) + 1) * (_SECOND_NS // per_s) if per_s else 0)
        is_next = per_s or len(took) == acknowledged == len(began)
        may = len(began) < records and is_next
        wait_s = (due - time.monotonic_ns()) / _SECOND_NS if may else None
        if wait_s is not None and wait_s <= 0:
            began.append(time.monotonic_ns())
            producer.socket.sendall(producer.request(frames[0]))
            continue
        for key, _ in selector.select(wait_s):
            if key.data is producer:
                acknowledged += len(producer.receive(value["error_at"]))
                continue
            for size in consumer.receive(value["fetch_error_at"]):
                arrived = (size - value["empty_bytes"]) // value["batch_bytes"]
                now = time.monotonic_ns()
                took += [now - began[len(took) + number] for number in range(arrived)]
                offset += arrived
                consumer.socket.sendall(consumer.request(_fetch(frames[1], value, offset)))
    elapsed, cpu = time.monotonic_ns() - begun, _cpu_of_brokers(words) - cpu
    took.sort()
    return [len(took), elapsed, cpu, records, took[records // 2], took[records * 99 // 100]]


def _fetch(frame: bytes, value: dict[str, int], offset: int) -> bytearray:
    """The frame with that offset, and the next number if one rises."""
    changed = bytearray(frame)
    _OFFSET.pack_into(changed, value["offset_at"], offset)
    value["first"] += 1
    if value["rising_at"]:
        _SIZE.pack_into(changed, value["rising_at"], value["first"])
    return changed


def _cpu_of_brokers(words: dict[str, str]) -> int:
    """Nanoseconds so far; the clock of a process counts threads that have ended, too."""
    pids = [int(pid) for pid in words["pids"].split(",") if pid]
    return sum(time.clock_gettime_ns(~pid << 3 | 2) for pid in pids)


def main(kind: str, host: str, port: str, path: str, *words: str) -> None:
    """Send, or deliver, and print what it took."""
    content, frames, at = Path(path).read_bytes(), [], 0
    while at < len(content):
        size = 4 + _SIZE.unpack_from(content, at)[0]
        frames.append(content[at : at + size])
        at += size
    run = {"send": _send, "deliver": _deliver}[kind]
    settings = dict(word.split("=", 1) for word in words)
    print(*run((host, int(port)), frames, settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
