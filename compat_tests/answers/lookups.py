"""ListOffsets, OffsetForLeaderEpoch, Metadata and ApiVersions: each number at its edges, topics that
are missing, named twice, by name and by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compat_tests.answers.asking import Caller
from compat_tests.answers.parts import (
    COMPACTED,
    EMPTY,
    FULL,
    INT32,
    MISSING,
    OFFSETS_FOR_EPOCHS,
    TRIMMED,
    UNKNOWN_ID,
    Values,
    edges,
    epochs,
    epochs_of,
    list_offsets,
    metadata,
    offsets_of,
    replaced,
    shown,
)
from compat_tests.wire.wire_client import API_VERSIONS, LIST_OFFSETS, METADATA

TOPICS = (FULL, EMPTY, TRIMMED, COMPACTED, MISSING, "")
_TIMES = (0, 1, -1, -2, -3, -4, -5, -6, -7, -(2**63), 2**63 - 1, 1_500, 3_001)
_NAMES = (FULL, MISSING, "", ".", "..", "a" * 249, "a" * 250, "a/b", "__consumer_x")


def offsets(caller: Caller) -> None:
    for version in range(1, 12):
        for name in TOPICS:
            for timestamp in _TIMES:
                topics = [{"name": name, "partitions": [offsets_of(version, timestamp)]}]
                request = list_offsets(version, topics)
                caller.ask(f"offsets of {name!r} at {timestamp}", LIST_OFFSETS, version, **request)
        usual = list_offsets(version, [{"name": FULL, "partitions": [offsets_of(version, -1)]}])
        for path, value in edges(usual):
            request = replaced(usual, path, value)
            caller.ask(f"offsets with {shown(path)}={value}", LIST_OFFSETS, version, **request)


def offsets_twice(caller: Caller) -> None:
    for version in (1, 4, 7, 10):
        latest, earliest = offsets_of(version, -1), offsets_of(version, -2)
        for name in (FULL, MISSING):
            entries: dict[str, list[Values]] = {
                "a partition twice": [{"name": name, "partitions": (latest, earliest)}],
                "a topic twice": [{"name": name, "partitions": (p,)} for p in (latest, earliest)],
                "a partition three times": [{"name": name, "partitions": (latest,) * 3}],
            }
            for what, topics in entries.items():
                request = list_offsets(version, topics)
                caller.ask(f"offsets: {what}, {name}", LIST_OFFSETS, version, **request)


def epochs_at_edges(caller: Caller) -> None:
    for version in (2, 3, 4):
        usual = epochs(version, [{"topic": FULL, "partitions": [epochs_of(0)]}])
        for path, value in edges(usual):
            request = replaced(usual, path, value)
            caller.ask(f"epochs with {shown(path)}={value}", OFFSETS_FOR_EPOCHS, version, **request)


def epochs_of_topics(caller: Caller) -> None:
    now = caller.names.epoch
    pairs = [(present, asked) for present in (-1, 0, 1) for asked in (-1, 0, 1)]
    for version in (2, 3, 4):
        for name in TOPICS:
            for present, asked in pairs:
                wanted = epochs_of(now + asked, now + present)
                request = epochs(version, [{"topic": name, "partitions": [wanted]}])
                label = f"epochs of {name!r}: {asked} at {present}"
                caller.ask(label, OFFSETS_FOR_EPOCHS, version, **request)


def epochs_twice(caller: Caller) -> None:
    wanted = [epochs_of(0), epochs_of(INT32)]
    for version in (2, 3, 4):
        for name in (FULL, MISSING):
            entries = {
                "a partition twice": [{"topic": name, "partitions": wanted}],
                "a topic twice": [{"topic": name, "partitions": [one]} for one in wanted],
            }
            for what, topics in entries.items():
                request = epochs(version, topics)
                caller.ask(f"epochs: {what}, {name}", OFFSETS_FOR_EPOCHS, version, **request)


def topics_by_name_and_id(caller: Caller) -> None:
    for version in range(14):
        flags = (False, True) if version >= 8 else (None,)
        for what, topics in _topics(caller, version):
            for flag in flags:
                values: Values = {}
                if flag is not None:
                    values["include_topic_authorized_operations"] = flag
                    if version <= 10:
                        values["include_cluster_authorized_operations"] = flag
                request = metadata(version, topics, **values)
                told = "" if flag is None else f", operations {flag}"
                caller.ask(f"metadata of {what}{told}", METADATA, version, **request)


def api_versions(caller: Caller) -> None:
    for version in (3, 4):
        for name, software in (("a", ""), ("", "1"), ("a b", "1"), ("-a", "1"), ("a" * 300, "1.0")):
            caller.ask(
                f"api versions of {name[:9]!r} {software!r}", API_VERSIONS, version,
                client_software_name=name, client_software_version=software,
            )  # fmt: skip


ALL = (
    offsets, offsets_twice, epochs_at_edges, epochs_of_topics, epochs_twice, topics_by_name_and_id,
    api_versions,
)  # fmt: skip


def _topics(caller: Caller, version: int) -> Iterator[tuple[str, list[Any]]]:
    for name in _NAMES:
        yield f"{name[:20]!r} of {len(name)}", [{"name": name}]
    yield "none", []
    yield "several", [{"name": name} for name in (FULL, MISSING, "a b")]
    yield "one twice", [{"name": FULL}] * 2
    yield "a missing one twice", [{"name": MISSING}] * 2
    if version < 10:
        return
    known = {"name": None, "topic_id": caller.names.ids[FULL]}
    unknown = {"name": None, "topic_id": UNKNOWN_ID}
    yield "no name", [{"name": None}]
    yield "an id", [known]
    yield "an id twice", [known] * 2
    yield "an id and its name", [{**known, "name": FULL}]
    yield "an id and another name", [{**known, "name": MISSING}]
    yield "an unknown id", [unknown]
    yield "an unknown id twice", [unknown] * 2
    yield "an unknown id and a name", [{**unknown, "name": FULL}]
    yield "ids and names", [{"name": EMPTY}, known]
    yield "one by id and by name", [known, {"name": FULL}]
