"""The parts of requests, and the values that every number in one is tried with."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from uuid import UUID

from compat_tests.answers.asking import WAIT_MS, Caller

OFFSETS_FOR_EPOCHS = 23
FULL, EMPTY, COMPACTED, TRIMMED, TARGET = "full", "empty", "compacted", "trimmed", "written-to"
MISSING, UNKNOWN_ID = "missing", UUID("11111111-2222-3333-4444-555555555555")
INT8, INT16, INT32, INT64 = (2 ** (bits - 1) - 1 for bits in (8, 16, 32, 64))
BY_ID = 13  # the first version of Fetch that does not name its topics

Path = tuple[str | int, ...]
Values = dict[str, Any]


def partition(caller: Caller, version: int, offset: int = 0, **values: Any) -> Values:
    """One partition as Fetch asks for it."""
    wanted: Values = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    if version >= 5:
        wanted["log_start_offset"] = -1
    if version >= 9:
        wanted["current_leader_epoch"] = -1
    if version >= 12:
        wanted["last_fetched_epoch"] = -1
    return {**wanted, **values}


def topic(caller: Caller, version: int, name: str, *partitions: Values) -> Values:
    """A topic with partitions, by name or by id."""
    if version >= BY_ID:
        return {"topic_id": caller.names.ids.get(name, UNKNOWN_ID), "partitions": partitions}
    return {"topic": name, "partitions": partitions}


def fetch(caller: Caller, version: int, *topics: Values, **values: Any) -> Values:
    """A whole Fetch."""
    request: Values = {
        "max_wait": WAIT_MS, "min_bytes": 1, "max_bytes": 1 << 24, "isolation_level": 0,
        "topics": topics,
    }  # fmt: skip
    if version < 15:
        request["replica_id"] = -1
    if version >= 7:
        request |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": ()}
    if version >= 11:
        request["rack_id"] = ""
    return {**request, **values}


def one(caller: Caller, version: int, name: str, offset: int = 0, **values: Any) -> Values:
    """A topic with one partition."""
    return topic(caller, version, name, partition(caller, version, offset, **values))


def forgotten(caller: Caller, version: int, name: str, *indexes: int) -> Values:
    """Partitions that leave a session."""
    if version >= BY_ID:
        return {"topic_id": caller.names.ids.get(name, UNKNOWN_ID), "partitions": indexes}
    return {"topic": name, "partitions": indexes}


def offsets_of(version: int, timestamp: int) -> Values:
    wanted = {"partition_index": 0, "timestamp": timestamp}
    return {**wanted, "current_leader_epoch": -1} if version >= 4 else wanted


def list_offsets(version: int, topics: list[Values]) -> Values:
    request: Values = {"replica_id": -1, "topics": topics}
    if version >= 2:
        request["isolation_level"] = 0
    return request


def epochs_of(epoch: int, present: int = -1) -> Values:
    return {"partition": 0, "current_leader_epoch": present, "leader_epoch": epoch}


def epochs(version: int, topics: list[Values]) -> Values:
    request: Values = {"topics": topics}
    if version >= 3:
        request["replica_id"] = -1
    return request


def metadata(version: int, topics: list[Values], **values: Any) -> Values:
    request: Values = {"topics": topics, **values}
    if version >= 4:
        request["allow_auto_topic_creation"] = False
    return request


def produce(topics: list[Values]) -> Values:
    return {"transactional_id": None, "acks": -1, "timeout": 1_000, "topic_data": topics}


def edges(values: Any, path: Path = ()) -> Iterator[tuple[Path, int]]:
    """Each number in a request with the values that it is tried with."""
    if isinstance(values, dict):
        for key, value in values.items():
            yield from edges(value, (*path, key))
    elif isinstance(values, list | tuple):
        for index, value in enumerate(values):
            yield from edges(value, (*path, index))
    elif isinstance(values, int) and not isinstance(values, bool):
        name = path[-1]
        top = {"isolation_level": INT8, "acks": INT16}.get(str(name), INT32)
        if name in ("fetch_offset", "log_start_offset", "offset", "timestamp"):
            top = INT64
        for value in (-top - 1, -3, -2, -1, 0, 1, 2, 7, top - 1, top):
            # A restart leaves some brokers at epoch 0 and gives others a new one.
            if not (str(name).endswith("epoch") and name != "session_epoch" and 0 <= value < 7):
                yield path, value


def replaced(values: Values, path: Path, value: int) -> Values:
    """The request with another number in that place."""
    changed = deepcopy(values)
    place: Any = changed
    for step in path[:-1]:
        if isinstance(place[step], tuple):
            place[step] = list(place[step])
        place = place[step]
    place[path[-1]] = value
    return changed


def shown(path: Path) -> str:
    return ".".join(str(step) for step in path if not isinstance(step, int))
