"""Versions that only the older line still serves, packed by hand: Fetch 0 to 3, ListOffsets 0,
OffsetForLeaderEpoch 0 and 1.

Of converted records it is compared whether there are any: Apache fills them up to the size that they
had before.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from compat_tests.answers.asking import WAIT_MS, Caller
from compat_tests.answers.parts import (
    COMPACTED,
    EMPTY,
    FULL,
    INT32,
    MISSING,
    OFFSETS_FOR_EPOCHS,
    TRIMMED,
)
from compat_tests.wire.hand_packed import int32, int64, request, text
from compat_tests.wire.wire_client import FETCH, LIST_OFFSETS

_TOPICS = (FULL, EMPTY, COMPACTED, TRIMMED, MISSING, "")
_EDGES = (-(2**31), -2, -1, 0, 1, 7, 10_000, 1 << 20, INT32)


def fetched(caller: Caller) -> None:
    for version in range(4):
        for name in _TOPICS:
            for offset in (-1, 0, 4, 6, 13, 15, 20, 21, 22):
                body = _fetch(version, _one(name, offset))
                _ask(caller, f"old fetch of {name!r} from {offset}", FETCH, version, body)
        for value in _EDGES:
            for what, change in _fetches(version, value).items():
                _ask(caller, f"old fetch with {what}={value}", FETCH, version, change)
        twice = int32(1) + text(FULL) + int32(2) + (_partition(0) + _partition(3))
        _ask(caller, "old fetch: a partition twice", FETCH, version, _fetch(version, twice))
        apart = int32(2) + _one(FULL, 0)[4:] + _one(FULL, 3)[4:]
        _ask(caller, "old fetch: a topic twice", FETCH, version, _fetch(version, apart))
        _ask(caller, "old fetch of nothing", FETCH, version, _fetch(version, int32(0)))


def what_waits(caller: Caller, versions: tuple[int, ...] = (0, 1, 2, 3)) -> None:
    for version in versions:
        for name, offset in ((EMPTY, 0), (MISSING, 0), (FULL, 0), (FULL, 18), (FULL, 99)):
            wanted = _one(name, offset)
            body = _fetch(version, wanted, wait_ms=WAIT_MS, min_bytes=1 << 24)
            _ask(caller, f"old fetch waits: {name} from {offset}", FETCH, version, body)
            wanted = int32(2) + wanted[4:] + _one(EMPTY, 0)[4:]
            body = _fetch(version, wanted, wait_ms=WAIT_MS, min_bytes=1 << 24)
            label = f"old fetch waits: {name} from {offset} beside an idle partition"
            _ask(caller, label, FETCH, version, body)


def offsets(caller: Caller) -> None:
    for name in _TOPICS:
        for time in (-(2**63), -3, -2, -1, 0, 1_000, 3_500, 2**63 - 1):
            for count in (-1, 0, 1, 2, 100):
                wanted = int32(0) + int64(time) + int32(count)
                body = int32(-1) + int32(1) + text(name) + int32(1) + wanted
                _ask(caller, f"old offsets of {name!r} at {time}, {count}", LIST_OFFSETS, 0, body)
    for replica in (-3, -2, 0, 7):
        wanted = int32(0) + int64(-1) + int32(2)
        body = int32(replica) + int32(1) + text(FULL) + int32(1) + wanted
        _ask(caller, f"old offsets by replica {replica}", LIST_OFFSETS, 0, body)
    wanted = int32(0) + int64(-1) + int32(2)
    body = int32(-1) + int32(1) + text(FULL) + int32(2) + wanted + wanted
    _ask(caller, "old offsets: a partition twice", LIST_OFFSETS, 0, body)


def epochs(caller: Caller) -> None:
    for version in (0, 1):
        for name in _TOPICS:
            for epoch in _EDGES:
                body = int32(1) + text(name) + int32(1) + int32(0) + int32(epoch)
                label = f"old epochs of {name!r} at {epoch}"
                _ask(caller, label, OFFSETS_FOR_EPOCHS, version, body)


ALL: tuple[Callable[[Caller], None], ...] = (fetched, what_waits, offsets, epochs)


def _ask(caller: Caller, label: str, key: int, version: int, body: bytes) -> None:
    read = partial(_fetch_answer, version) if key == FETCH else as_it_is
    for name in caller.names.own:
        body = body.replace(text(name), text(caller.names.on_broker(name)))
    caller.ask_packed(label, key, version, request(key, version, body), read)


def as_it_is(answer: bytes) -> str:
    return answer.hex(" ")


def _fetch_answer(version: int, answer: bytes) -> list[tuple[str, int, int, int, bool]]:
    """(topic, partition, error, high watermark, whether there are records), sorted."""
    at = 8 if version else 4
    found = []
    (topics,) = struct.unpack_from(">i", answer, at)
    at += 4
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", answer, at)
        name = answer[at + 2 : at + 2 + size].decode()
        (partitions,) = struct.unpack_from(">i", answer, at + 2 + size)
        at += 6 + size
        for _ in range(partitions):
            index, error, high_watermark, length = struct.unpack_from(">ihqi", answer, at)
            at += 18 + max(length, 0)
            found.append((name, index, error, high_watermark, length > 0))
    assert at == len(answer)
    return sorted(found)


def _fetch(
    version: int,
    topics: bytes,
    *,
    replica_id: int = -1,
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 24,
) -> bytes:
    limit = int32(max_bytes) if version >= 3 else b""
    return int32(replica_id) + int32(wait_ms) + int32(min_bytes) + limit + topics


def _fetches(version: int, value: int) -> dict[str, bytes]:
    """A Fetch with one number changed, by that number's name."""
    found = {
        "min_bytes": _fetch(version, _one(FULL, 0), min_bytes=value),
        "partition_max_bytes": _fetch(version, _one(FULL, 0, value)),
        "partition": _fetch(version, _one(FULL, 0, index=value)),
    }
    if value < 0:
        found["replica_id"] = _fetch(version, _one(FULL, 0), replica_id=value)
    if version >= 3:
        found["max_bytes"] = _fetch(version, _one(FULL, 0), max_bytes=value)
    return found


def _one(name: str, offset: int, max_bytes: int = 1 << 20, index: int = 0) -> bytes:
    """An array of one topic with one partition."""
    return int32(1) + text(name) + int32(1) + _partition(offset, max_bytes, index)


def _partition(offset: int, max_bytes: int = 1 << 20, index: int = 0) -> bytes:
    return int32(index) + int64(offset) + int32(max_bytes)
