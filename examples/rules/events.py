"""What the generators of the examples share: events, the text of times, and which events a job has
to accept. It knows nothing of Spark, so that the truth does not come from the code it judges.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

BEGIN_MS = 1_795_168_800_000  # 2026-11-20T10:00:00Z


@dataclass(frozen=True, slots=True)
class Event:
    """A record to write: `value` is its text, `time_ms` its time, None where it is broken."""

    topic: str
    partition: int
    key: str
    value: str
    time_ms: int | None
    row: dict[str, Any] = field(default_factory=dict)  # what the value says


@dataclass(slots=True)
class SortedOut:
    """Events as a job has to tell them apart, each in the order of writing."""

    accepted: list[Event] = field(default_factory=list)
    late: list[Event] = field(default_factory=list)
    doubled: list[Event] = field(default_factory=list)
    broken: list[Event] = field(default_factory=list)


def sort_out(
    events: Iterable[Event], delay_ms: int, same: Callable[[Event], Hashable] | None
) -> SortedOut:
    """By the promise of the documentation: late is what is older than the newest event before it in
    its partition by more than the delay; of those that are the `same`, the first is accepted.
    """
    found = SortedOut()
    newest: dict[tuple[str, int], int] = {}
    seen: set[Hashable] = set()
    for event in events:
        place = (event.topic, event.partition)
        if event.time_ms is None:
            found.broken.append(event)
        elif event.time_ms < newest.get(place, event.time_ms) - delay_ms:
            found.late.append(event)
        else:
            newest[place] = max(newest.get(place, event.time_ms), event.time_ms)
            name = same(event) if same is not None else None
            if name is not None and name in seen:
                found.doubled.append(event)
            else:
                seen.add(name)
                found.accepted.append(event)
    return found


def partition_of(key: str, partitions: int) -> int:
    """Where the generators put a key: each program may choose, as long as it stays with it."""
    return zlib.crc32(key.encode()) % partitions


def time_text(time_ms: int) -> str:
    """A time as rules write it.

    >>> time_text(1795168800000)
    '2026-11-20T10:00:00.000Z'
    """
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z"


def record(key: str | None, row: dict[str, Any]) -> tuple[str | None, str]:
    """A record of results, as it is compared: columns in any order."""
    return key, json.dumps(row, sort_keys=True)


def as_they_came(events: Sequence[Event]) -> list[tuple[str | None, str]]:
    """Records that were put aside."""
    return [(event.key, event.value) for event in events]


def json_event(topic: str, partitions: int, key: str, row: dict[str, Any], time_ms: int) -> Event:
    """A row as JSON, in the partition of its key."""
    return Event(topic, partition_of(key, partitions), key, json.dumps(row), time_ms, row)


def delivered(rng: random.Random, made: Iterable[Event], delay_ms: int) -> list[Event]:
    """Events in the order in which they arrive: some a little late, some far too late, some twice,
    some broken on the way.
    """
    arrivals: list[tuple[int, int, Event]] = []
    for number, event in enumerate(made):
        assert event.time_ms is not None
        at_ms = event.time_ms
        if number % 20 == 7:
            at_ms += rng.randrange(delay_ms // 2)
        elif number % 50 == 23:
            at_ms += delay_ms * 6 + rng.randrange(delay_ms * 6)
        arrivals.append((at_ms, number, event))
        if number % 30 == 11:
            arrivals.append((at_ms + rng.randrange(delay_ms * 2), number, event))
        elif number % 40 == 17:
            arrivals.append((at_ms, number, _broken(event, number // 40)))
    return [event for _, _, event in sorted(arrivals, key=lambda each: each[:2])]


def _broken(event: Event, number: int) -> Event:
    row = {name: value for name, value in event.row.items() if name != "time"}
    texts = (event.value[: len(event.value) // 2], json.dumps(row), f"[{event.value}]", "?")
    return replace(event, value=texts[number % len(texts)], time_ms=None, row={})


def window_starts(time_ms: int, window_ms: int, slide_ms: int) -> range:
    """The starts of the windows that a time is in.

    >>> [start - BEGIN_MS for start in window_starts(BEGIN_MS + 70_000, 60_000, 30_000)]
    [60000, 30000]
    """
    return range(time_ms // slide_ms * slide_ms, time_ms - window_ms, -slide_ms)


def window_row(start_ms: int, window_ms: int) -> dict[str, Any]:
    """The columns of a window."""
    return {"window_start": time_text(start_ms), "window_end": time_text(start_ms + window_ms)}


def of_topic(written: Iterable[Event], topic: str) -> list[Event]:
    """Those that are written to a topic, in their order."""
    return [event for event in written if event.topic == topic]
