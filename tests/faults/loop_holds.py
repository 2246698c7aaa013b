"""How long one request holds the event loop: for every API, in its lowest and highest version, and
every array in it, a request of some megabytes full of that array, sent to a broker. What counts is
the CPU time of the longest single turn of the loop, as that is what all other clients wait.

    python -m tests.faults.loop_holds --megabytes 1 [--only Metadata,Fetch]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from socket import create_connection
from typing import Any

from kbroker.apis import registry
from kbroker.apis.registry import Api
from kbroker.config.kafka_config import KafkaConfig
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import RequestHeader, decode_request_header, encode_request_header
from kbroker.protocol.schema import FieldSpec, Struct, field_specs
from kbroker.server.broker.kafka_server import KafkaServer
from tests.faults.running_broker import read_answer

SAMPLE = 200
VALUES: dict[str, Any] = {  # so that a request is not refused for what is beside the array
    "group_id": "g", "acks": 1, "timeout_ms": 10, "protocol_type": "consumer", "generation_id": -1,
    "allow_auto_topic_creation": False, "validate_only": True, "session_epoch": -1, "max_bytes": 1000,
    "replica_id": -1, "client_software_name": "a", "client_software_version": "1", "resource_type": 2,
    "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "num_partitions": 1, "count": 2,
    "replication_factor": 1, "partition_max_bytes": 1000, "isolation_level": 0, "transactional_id": None,
}  # fmt: skip

NUMBERS = ("producer_id", "partition_index", "partition", "index")  # what tells entries apart


@dataclass(frozen=True)
class Case:
    """One array of one version of a request."""

    api: Api
    version: int
    path: tuple[FieldSpec, ...]

    def __str__(self) -> str:
        names = ".".join(field.name for field in self.path)
        return f"{self.api.key:3} {self.api.name} v{self.version} {names}"

    def frame(self, size_bytes: int) -> tuple[bytes, int]:
        """A request of about that size, and how many entries its array has."""
        sample = len(self._encoded(2 * SAMPLE)) - len(self._encoded(SAMPLE))
        count = max(size_bytes * SAMPLE // max(sample, 1), 1)
        count = min(count, self.most_entries())
        return self._encoded(count), count

    def most_entries(self) -> int:
        """With more of them a request is refused before a handler sees it."""
        return self.api.request_class.max_elements // self.elements_each() - SAMPLE

    def elements_each(self) -> int:
        """How many elements of arrays an entry takes."""
        one, two = (_elements(self.request(number)) for number in (1, 2))
        return two - one

    def numbered(self, start: int, count: int) -> list[Any]:
        """So many entries from a number on."""
        last = self.path[-1]
        return [_entry(last, self.version, (), 1, start + number) for number in range(count)]

    def request(self, count: int) -> Any:
        """With so many entries in the array."""
        request = self.api.request_class()
        _fill(request, self.version, self.path, count)
        return request

    def entries(self, count: int) -> list[Any]:
        """So many of the array."""
        value = self.request(count)
        for field in self.path[:-1]:
            (value,) = getattr(value, field.name)
        found: list[Any] = getattr(value, self.path[-1].name)
        return found

    def decode_ms(self, frame: bytes) -> float:
        """CPU time of decoding alone."""
        view = memoryview(bytearray(frame))
        _, offset = decode_request_header(view)
        begin = time.thread_time()
        kept = decode(self.api.request_class, self.version, view, offset)
        spent_s = time.thread_time() - begin
        del kept
        return spent_s * 1000

    def _encoded(self, count: int) -> bytes:
        header = RequestHeader(self.api.key, self.version, 1, "c")
        return encode(self.request(count), self.version, encode_request_header(header))


def cases(only: str | None) -> Iterator[Case]:
    for api in registry.registered().values():
        if only and api.name not in only.split(","):
            continue
        for version in sorted({api.versions.lowest, api.versions.highest}):
            for path in _paths(api.request_class, version):
                yield Case(api, version, path)


def _paths(cls: Any, version: int) -> Iterator[tuple[FieldSpec, ...]]:
    for field in _fields(cls):
        if version not in field.versions or not field.is_array:
            continue
        yield (field,)
        if field.struct is not None:
            for rest in _paths(field.struct, version):
                yield (field, *rest)


@cache
def _fields(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """Parsed once, not for each entry of a large array."""
    return tuple(field_specs(cls))


def _fill(
    value: Any, version: int, path: tuple[FieldSpec, ...], count: int, number: int = 0
) -> None:
    for field in _fields(type(value)):
        if version not in field.versions:
            continue
        given = VALUES.get(field.name, ...)
        if given is not ... and (given is not None or version in field.nullable):
            setattr(value, field.name, given)
        elif not field.is_array and field.type_name == "string":
            setattr(value, field.name, f"t{number}")
        elif field.name in NUMBERS:
            setattr(value, field.name, number % 2**31)
        if path and field.name == path[0].name:
            entries = count if len(path) == 1 else 1
            made = [_entry(field, version, path[1:], count, n) for n in range(entries)]
            setattr(value, field.name, made)
        elif field.is_array and not path and field.struct is not None:
            setattr(value, field.name, [_entry(field, version, (), 1, number)])


def _entry(
    field: FieldSpec, version: int, rest: tuple[FieldSpec, ...], count: int, number: int
) -> Any:
    if field.struct is not None:
        entry = field.struct()
        _fill(entry, version, rest, count, number)
        return entry
    if field.type_name == "string":
        return f"t{number}"
    return number % (2**7 if field.type_name == "int8" else 2**15)


def _elements(value: Any) -> int:
    """All elements of all arrays in a message."""
    if isinstance(value, list):
        return len(value) + sum(map(_elements, value))
    fields = _fields(type(value)) if isinstance(value, Struct) else ()
    return sum(_elements(getattr(value, field.name)) for field in fields)


class Turns:
    """The longest turn of the loop since it was last asked."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    def install(self) -> None:
        run = asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            begin = time.thread_time()
            run(handle)
            self.longest_s = max(self.longest_s, time.thread_time() - begin)

        asyncio.Handle._run = measured  # type: ignore[method-assign]

    def take_ms(self) -> float:
        longest, self.longest_s = self.longest_s, 0.0
        return longest * 1000


class InOneTurn:
    """How much of something the busiest turn of a loop has, and all turns."""

    def __init__(self) -> None:
        self.most = self.total = 0
        self._now = 0

    def add(self) -> None:
        """One more of it."""
        self._now += 1
        self.total += 1

    @contextmanager
    def each(self) -> Iterator[None]:
        """Begin with nothing."""
        run = asyncio.Handle._run

        def one_turn(handle: asyncio.Handle) -> None:
            self._now = 0
            run(handle)
            self.most = max(self.most, self._now)

        self.most = self.total = 0
        asyncio.Handle._run = one_turn  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]


class Calls(InOneTurn):
    """Calls of functions."""

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count those of this thread."""
        with self.each():
            sys.setprofile(self._count)
            try:
                yield
            finally:
                sys.setprofile(None)

    def _count(self, _frame: Any, event: str, _arg: Any) -> None:
        if event in ("call", "c_call"):
            self._now += 1
            self.total += 1


class Ends(InOneTurn):
    """Objects that end."""

    @contextmanager
    def counted(self, *classes: type[Any]) -> Iterator[None]:
        """Count those of classes that are not told of it otherwise."""
        gc.freeze()  # or the garbage of earlier work may be collected, and counted, here
        for cls in classes:
            cls.__del__ = lambda _thing: self.add()
        try:
            with self.each():
                yield
        finally:
            for cls in classes:
                del cls.__del__
            gc.unfreeze()


def say(port: int, frame: bytes) -> bytes:
    """Send a frame to a broker and return its answer."""
    with create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        return read_answer(connection)


async def measure(case: Case, port: int, size_bytes: int, turns: Turns) -> str:
    frame, count = await asyncio.to_thread(case.frame, size_bytes)
    decode_ms = await asyncio.to_thread(case.decode_ms, frame)
    turns.take_ms()
    begin = time.process_time()
    answered = len(await asyncio.to_thread(say, port, frame))
    cpu_ms = (time.process_time() - begin) * 1000
    return f"{turns.take_ms():8.0f} {decode_ms:8.0f} {cpu_ms:8.0f} {count:9} {len(frame):10} {answered:10}  {case}"


async def run(only: str | None, size_bytes: int, directory: str) -> None:
    turns = Turns()
    turns.install()
    values = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": directory,
        "auto.create.topics.enable": "false",  # or old Metadata makes all topics it names
    }
    server = KafkaServer(KafkaConfig.for_profile("dev", values))
    await server.startup()
    print(
        "hold ms   decode   CPU ms   entries    request     answer  API, version, array", flush=True
    )
    try:
        for case in cases(only):
            try:
                line = await measure(case, server.end_points[0].port, size_bytes, turns)
            except (OSError, ValueError, struct.error) as error:
                line = f"{'':48}  {case}: {error!r:.100}"
            print(line, flush=True)
    finally:
        await server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=float, default=1)
    parser.add_argument("--only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(options.only, int(options.megabytes * 1_000_000), directory))


if __name__ == "__main__":
    sys.exit(main())
