"""Chooses which files of an archive are merged, and which are expired. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

from kbroker.pipeline.archiving.manifests.manifest import EXPIRED, NO_HOUR, FileEntry, HoleEntry

_LARGE_ENOUGH = 0.75  # of the target: such a file is not merged


def merge_groups(
    entries: Iterable[FileEntry], target_bytes: int, before_hour: str, topics: Collection[str] = ()
) -> list[tuple[FileEntry, ...]]:
    """Return groups of small files that become one: neighbours of the same partition and hour, two
    or more, up to about `target_bytes` together. Hours from `before_hour` on (as manifests spell
    them) are left alone: they still grow. Files without an hour are merged whenever there are some.
    """
    groups: list[tuple[FileEntry, ...]] = []
    chosen = [
        entry
        for entry in entries
        if (not topics or entry.topic in topics)
        and (entry.hour == NO_HOUR or entry.hour < before_hour)
    ]
    chosen.sort(key=lambda entry: (*_home(entry), entry.first_offset))
    for _, alike in groupby(chosen, key=_home):
        groups += _neighbours(list(alike), target_bytes)
    return groups


def _home(entry: FileEntry) -> tuple[str, str, int, str]:
    return entry.kind, entry.topic, entry.partition, entry.hour


def _neighbours(entries: list[FileEntry], target_bytes: int) -> list[tuple[FileEntry, ...]]:
    groups: list[tuple[FileEntry, ...]] = []
    group: list[FileEntry] = []
    for entry in [*entries, None]:
        is_large = entry is None or entry.size_bytes >= _LARGE_ENOUGH * target_bytes
        total = sum(each.size_bytes for each in group)
        if is_large or (entry is not None and total + entry.size_bytes > target_bytes):
            if len(group) > 1:
                groups.append(tuple(group))
            group = []
        if entry is not None and not is_large:
            group.append(entry)
    return groups


def expired_files(
    entries: Iterable[FileEntry], before_ms: int, topics: Collection[str] = ()
) -> list[FileEntry]:
    """Return files with no record newer than `before_ms`. Records without a time do not age."""
    return [
        entry
        for entry in entries
        if (not topics or entry.topic in topics)
        and entry.hour != NO_HOUR
        and entry.max_timestamp_ms < before_ms
    ]


def expiry_holes(entries: Iterable[FileEntry]) -> tuple[HoleEntry, ...]:
    """Return the holes that stand for the records of expired files."""
    return tuple(
        HoleEntry(
            topic=entry.topic,
            partition=entry.partition,
            first_offset=entry.first_offset,
            last_offset=entry.last_offset,
            missing=entry.rows,
            reason=EXPIRED,
        )
        for entry in entries
        if entry.kind == "data"
    )
