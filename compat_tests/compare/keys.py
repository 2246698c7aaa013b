"""Which questions a key has, what it is called, and which keys are never asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from kio.index import load_request_schema

from compat_tests.answers import changes, fetches, groups, lookups, old_versions, sessions, writes
from compat_tests.answers.asking import Caller
from compat_tests.answers.usual import USUAL, in_every_version

Ask = Callable[[Caller], None]

_FURTHER: dict[int, tuple[Ask, ...]] = {
    0: (writes.produced, writes.produced_twice),
    1: (
        *fetches.ALL, *sessions.ALL, *changes.ALL, old_versions.fetched, old_versions.what_waits,
    ),
    2: (lookups.offsets, lookups.offsets_twice, old_versions.offsets),
    3: (lookups.topics_by_name_and_id,),
    18: (lookups.api_versions,),
    21: (writes.deleted, writes.deleted_twice),
    23: (
        lookups.epochs_at_edges, lookups.epochs_of_topics, lookups.epochs_twice,
        old_versions.epochs,
    ),
    **{key: (partial(groups.in_each_state, key=key),) for key in groups.KEYS},
}  # fmt: skip
_BETWEEN_BROKERS = "a request between brokers, which could change the cluster"
NOT_ASKED = {
    **dict.fromkeys((4, 5, 6, 7, 56, 58, 67), _BETWEEN_BROKERS),
    **dict.fromkeys(range(52, 55), "a request between controllers"),
    **dict.fromkeys((59, 62, 63, 70, 73, 82), _BETWEEN_BROKERS),
}
_NEWEST = 20
_OF_ZOOKEEPER = {4: "LeaderAndIsr", 5: "StopReplica", 6: "UpdateMetadata", 7: "ControlledShutdown"}


def asks_of(key: int) -> tuple[Ask, ...]:
    """The questions of a key, in their order."""
    return (partial(in_every_version, key=key), *_FURTHER.get(key, ()))


def has_questions(key: int) -> bool:
    """True for keys that are asked where both serve them."""
    return key in USUAL


@cache
def key_name(key: int) -> str:
    """`Fetch`, or the number of a key that the codec does not know."""
    for version in range(_NEWEST + 1):
        try:
            schema: Any = load_request_schema(key, version)
        except Exception:  # whatever kio raises for it
            continue
        return "".join(part.capitalize() for part in schema.__module__.split(".")[2].split("_"))
    return _OF_ZOOKEEPER.get(key, f"key {key}")
