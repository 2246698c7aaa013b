"""Produce and DeleteRecords: each number at its edges, topics that are missing, named twice or not at
all.
"""

from __future__ import annotations

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import (
    EMPTY,
    MISSING,
    TARGET,
    Values,
    edges,
    produce,
    replaced,
    shown,
)
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import DELETE_RECORDS, PRODUCE

VERSIONS = (3, 5, 7, 8, 9, 11, 12)
_STRANGE = (MISSING, "", "a/b")
_TIMEOUT_MS = 1_000


def produced(caller: Caller) -> None:
    for version in VERSIONS:
        usual = produce([_records(TARGET)])
        for path, value in edges(usual):
            if (path[-1], value) == ("acks", 0):
                continue  # nobody answers
            request = replaced(usual, path, value)
            caller.ask(f"produce with {shown(path)}={value}", PRODUCE, version, **request)
        for name in (*_STRANGE, "__consumer_offsets"):
            caller.ask(f"produce to {name!r}", PRODUCE, version, **produce([_records(name)]))
        caller.ask("produce of nothing", PRODUCE, version, **produce([]))
        nowhere = produce([{"name": TARGET, "partition_data": []}])
        caller.ask("produce to no partition", PRODUCE, version, **nowhere)
        unnamed = {**usual, "transactional_id": ""}
        caller.ask("produce with an empty transactional id", PRODUCE, version, **unnamed)


def produced_twice(caller: Caller) -> None:
    for version in VERSIONS:
        for name in (TARGET, MISSING):
            pair = [*_records(name)["partition_data"]] * 2
            together = produce([{"name": name, "partition_data": pair}])
            caller.ask(f"produce: a partition twice, {name}", PRODUCE, version, **together)
            apart = produce([_records(name)] * 2)
            caller.ask(f"produce: a topic twice, {name}", PRODUCE, version, **apart)


def deleted(caller: Caller) -> None:
    for version in (0, 1, 2):
        usual = _deletion(EMPTY, 0)
        for path, value in edges(usual):
            request = replaced(usual, path, value)
            caller.ask(f"delete with {shown(path)}={value}", DELETE_RECORDS, version, **request)
        for name in _STRANGE:
            caller.ask(f"delete of {name!r}", DELETE_RECORDS, version, **_deletion(name, 0))
        nothing: Values = {"topics": [], "timeout": _TIMEOUT_MS}
        caller.ask("delete of nothing", DELETE_RECORDS, version, **nothing)
        nowhere = _deletion(EMPTY)
        caller.ask("delete of no partition", DELETE_RECORDS, version, **nowhere)


def deleted_twice(caller: Caller) -> None:
    for version in (0, 1, 2):
        for name in (TARGET, MISSING):
            together = _deletion(name, 0, -2)
            caller.ask(f"delete: a partition twice, {name}", DELETE_RECORDS, version, **together)
            apart = _deletion(name, 0)
            apart["topics"] += _deletion(name, -2)["topics"]
            caller.ask(f"delete: a topic twice, {name}", DELETE_RECORDS, version, **apart)


ALL = (produced, produced_twice, deleted, deleted_twice)


def _records(name: str) -> Values:
    return {"name": name, "partition_data": [{"index": 0, "records": batch()}]}


def _deletion(name: str, *offsets: int) -> Values:
    wanted = [{"partition_index": 0, "offset": offset} for offset in offsets]
    return {"topics": [{"name": name, "partitions": wanted}], "timeout": _TIMEOUT_MS}
