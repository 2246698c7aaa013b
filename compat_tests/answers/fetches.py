"""Fetch outside of sessions: each version, each number at its edges, what waits and what does not,
one partition named twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import (
    BY_ID,
    COMPACTED,
    EMPTY,
    FULL,
    INT32,
    MISSING,
    TRIMMED,
    Values,
    edges,
    fetch,
    one,
    partition,
    replaced,
    shown,
    topic,
)
from compat_tests.wire.wire_client import FETCH

VERSIONS = (4, 6, 8, 11, 12, 13, 17, 18)
WAITING_VERSIONS = (4, 11, 12, 13, 17)


def every_version(caller: Caller) -> None:
    asked = ((FULL, 0), (FULL, 3), (FULL, 9), (TRIMMED, 6), (COMPACTED, 0), (TRIMMED, 0))
    for version in range(4, 19):
        for name, offset in asked:
            request = fetch(caller, version, one(caller, version, name, offset))
            caller.ask(f"fetch {name} from {offset}", FETCH, version, **request)


def at_edges(caller: Caller) -> None:
    for version in VERSIONS:
        usual = fetch(caller, version, one(caller, version, FULL))
        for path, value in edges(usual):
            if path[-1] == "max_wait" or (path[-1] == "replica_id" and value >= 0):
                continue
            changed = replaced(usual, path, value)
            changed["max_wait"] = 0
            caller.ask(f"fetch with {shown(path)}={value}", FETCH, version, **changed)
        for wait in (-1, -(2**31), INT32):
            request = fetch(caller, version, one(caller, version, FULL), max_wait=wait)
            caller.ask(f"fetch with max_wait={wait}", FETCH, version, **request)


def what_waits(caller: Caller, versions: tuple[int, ...] = WAITING_VERSIONS) -> None:
    """Partitions alone, and beside an idle one."""
    for version in versions:
        idle = one(caller, version, EMPTY)
        caller.ask("waits: idle", FETCH, version, **fetch(caller, version, idle))
        for name, topics in _news(caller, version):
            request = fetch(caller, version, *topics)
            caller.ask(f"waits: {name}", FETCH, version, **request)
            request = fetch(caller, version, *topics, idle)
            caller.ask(f"waits: {name} beside an idle partition", FETCH, version, **request)


def what_waits_for_bytes(caller: Caller, versions: tuple[int, ...] = (11, 17)) -> None:
    """As many bytes as wanted, or not, in older segments and in the last one."""
    for version in versions:
        for values in ({"min_bytes": 0}, {"min_bytes": -1}, {"max_bytes": 0}, {"max_bytes": -1}):
            request = fetch(caller, version, one(caller, version, EMPTY), **values)
            caller.ask(f"waits: idle with {values}", FETCH, version, **request)
        for offset in range(0, 19, 2):
            request = fetch(caller, version, one(caller, version, FULL, offset), min_bytes=1 << 24)
            caller.ask(f"waits: all from {offset}", FETCH, version, **request)
        for limit in (0, 1, 10_000, 1 << 20, INT32):
            wanted = one(caller, version, FULL, 0, partition_max_bytes=limit)
            request = fetch(caller, version, wanted, min_bytes=INT32)
            caller.ask(f"waits: up to {limit}", FETCH, version, **request)
        for limit in (400_000, 500_000, 700_000):
            pair = one(caller, version, FULL, 18), one(caller, version, TRIMMED, 18)
            request = fetch(caller, version, *pair, max_bytes=limit, min_bytes=limit)
            caller.ask(f"waits: two partitions, {limit} in all", FETCH, version, **request)


def twice(caller: Caller) -> None:
    """One partition twice, in one entry of its topic and in two."""
    for version in WAITING_VERSIONS:
        first, second = (partition(caller, version, offset) for offset in (0, 3))
        mixed = (FULL, EMPTY, FULL, MISSING, MISSING)
        asked = {
            "a partition twice": [topic(caller, version, FULL, first, second)],
            "a topic twice": [topic(caller, version, FULL, one) for one in (first, second)],
            "topics mixed": [topic(caller, version, name, first) for name in mixed],
        }
        for what, topics in asked.items():
            request = fetch(caller, version, *topics, max_wait=0)
            caller.ask(f"fetch: {what}", FETCH, version, **request)


ALL = (every_version, at_edges, what_waits, what_waits_for_bytes, twice)


def _news(caller: Caller, version: int) -> Iterator[tuple[str, tuple[Values, ...]]]:
    yield "a missing topic", (one(caller, version, MISSING),)
    yield "a missing partition", (one(caller, version, FULL, partition=7),)
    yield "an offset beyond", (one(caller, version, FULL, 10_000),)
    yield "nothing", ()
    yield "an empty name", (one(caller, version, ""),)
    if version >= BY_ID:
        wanted = partition(caller, version)
        yield "an id of zeros", ({"topic_id": UUID(int=0), "partitions": (wanted,)},)
    if version >= 9:
        yield "a newer epoch", (one(caller, version, EMPTY, current_leader_epoch=INT32),)
        yield "an epoch of -2", (one(caller, version, EMPTY, current_leader_epoch=-2),)
    if version >= 12:
        yield "a last epoch of -2", (one(caller, version, EMPTY, last_fetched_epoch=-2),)
        yield "an epoch that diverged", (one(caller, version, EMPTY, last_fetched_epoch=INT32),)
