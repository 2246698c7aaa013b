"""Targets of a reset of a group: where it shall go on, and the offset of that in a partition.

Pure.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.client.moments import MOMENTS, timestamp_ms
from kbroker.model import TopicPartition

_SHIFT = re.compile(r"[+-]\d+")
_ENDS = {"earliest": EARLIEST, "latest": LATEST, "start": EARLIEST, "end": LATEST}
_OFFSET_HEADS = ("new_offset", "committed_offset", "offset")  # of reset, describe and Kafka
TARGETS = f"earliest, latest, an offset, +N or -N records, {MOMENTS}"
"""The forms that `target_named` reads, for the sentence about any other text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A target: exactly one of these is set. `moment` is EARLIEST, LATEST or Unix ms."""

    moment: int | None = None
    offset: int | None = None
    shift: int | None = None
    of_file: Mapping[TopicPartition, int] | None = None


@dataclass(frozen=True, slots=True)
class ResetPlace:
    """The offsets of a partition: committed, first, end, and at the moment of the target."""

    committed: int | None
    start: int
    end: int
    at_moment: int | None  # -1 if no record is as late


def target_named(text: str, now_ms: int) -> Target | None:
    """Return the target that a text names (see `TARGETS`); None for any other text. `now_ms` is
    Unix time.
    """
    if text in _ENDS:
        return Target(moment=_ENDS[text])
    if text.isascii() and text.isdecimal():
        return Target(offset=int(text))
    if _SHIFT.fullmatch(text):
        return Target(shift=int(text))
    at_ms = timestamp_ms(text, now_ms)
    return None if at_ms is None else Target(moment=max(at_ms, 0))


def offsets_in(lines: Iterable[str]) -> dict[TopicPartition, int]:
    """Read offsets from CSV: `topic,partition,offset` without a head, or with the heads of `kbroker
    group describe` or `reset`. Rows without an offset are left out. Raises ValueError.
    """
    rows = [row for row in csv.reader(lines) if row]
    heads = ["topic", "partition", "offset"]
    if rows and "topic" in rows[0]:
        heads = rows.pop(0)
    offset_head = next((head for head in _OFFSET_HEADS if head in heads), None)
    if offset_head is None or "partition" not in heads:
        raise ValueError("its head names no topic, partition and offset")
    found: dict[TopicPartition, int] = {}
    for number, row in enumerate(rows, start=1):
        cells = dict(zip(heads, row, strict=False))
        try:
            if not cells[offset_head]:
                continue
            place = TopicPartition(cells["topic"], int(cells["partition"]))
            offset = int(cells[offset_head])
        except (KeyError, ValueError) as error:
            raise ValueError(f"row {number} is not topic, partition, offset: {row}") from error
        if found.setdefault(place, offset) != offset:  # as in a file of several groups
            raise ValueError(f"row {number} names {place} again, with another offset")
    return found


def new_offset(place: ResetPlace, target: Target, partition: TopicPartition) -> int | None:
    """Return `wanted_offset`, moved into the partition."""
    offset = wanted_offset(place, target, partition)
    return None if offset is None else min(max(offset, place.start), place.end)


def wanted_offset(place: ResetPlace, target: Target, partition: TopicPartition) -> int | None:
    """Return the offset that the target asks for, even outside of the partition; None if it shifts
    a committed offset and there is none, or if the offset of its moment is not known.
    """
    if target.of_file is not None:
        offset = target.of_file[partition]
    elif target.offset is not None:
        offset = target.offset
    elif target.shift is not None:
        if place.committed is None:
            return None
        offset = place.committed + target.shift
    elif place.at_moment is None:
        return None
    else:
        offset = place.at_moment if place.at_moment >= 0 else place.end
    return offset
