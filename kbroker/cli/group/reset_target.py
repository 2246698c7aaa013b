"""The target of `kbroker group reset`: reads `--to`, and works out its offset in a partition."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.arguments.time_argument import MOMENTS, timestamp_ms
from kbroker.client.cluster_links import EARLIEST, LATEST
from kbroker.model import TopicPartition

_SHIFT = re.compile(r"[+-]\d+")
_ENDS = {"earliest": EARLIEST, "latest": LATEST, "start": EARLIEST, "end": LATEST}
_FROM_FILE = "file:"
ALL: frozenset[int] = frozenset()  # partitions of a topic
_OFFSET_HEADS = ("new_offset", "committed_offset", "offset")  # of reset, describe and Kafka


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


def parse_target(text: str, now_ms: int) -> Target:
    """Return the target that `--to` names. UsageError if it is none."""
    if text in _ENDS:
        return Target(moment=_ENDS[text])
    if text.startswith(_FROM_FILE):
        return Target(of_file=_read_file(text.removeprefix(_FROM_FILE)))
    if text.isascii() and text.isdecimal():
        return Target(offset=int(text))
    if _SHIFT.fullmatch(text):
        return Target(shift=int(text))
    at_ms = timestamp_ms(text, now_ms)
    if at_ms is None:
        raise click.UsageError(
            f"--to '{text}' is none of: earliest, latest, an offset, +N or -N records, {MOMENTS}, "
            "file:PATH"
        )
    return Target(moment=max(at_ms, 0))


def parse_topics(texts: Iterable[str]) -> dict[str, frozenset[int]]:
    """Return the partitions that `--topic` names, by topic; an empty set means all. Raises
    UsageError.
    """
    wanted: dict[str, frozenset[int]] = {}
    for text in texts:
        name, colon, numbers = text.partition(":")
        try:
            partitions = frozenset(int(number) for number in numbers.split(",")) if colon else ALL
        except ValueError:
            name = ""
        if not name:
            raise click.UsageError(f"--topic '{text}' is not TOPIC or TOPIC:0,1")
        known = wanted.get(name, partitions)
        wanted[name] = known | partitions if known and partitions else ALL
    return wanted


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


def _read_file(path: str) -> dict[TopicPartition, int]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return offsets_in(file)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from error
    except ValueError as error:
        raise CommandError(f"cannot use {path}: {error}", ExitCode.USAGE) from error


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
