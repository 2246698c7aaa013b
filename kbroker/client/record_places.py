"""Places in a topic where reading begins or ends: read from texts, and turned into offsets."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.moments import MOMENTS, timestamp_ms
from kbroker.model import TopicPartition

_LAST = re.compile(r"-(\d+)", re.ASCII)
PLACES = f"start, end, an offset, a number of last records such as -100, {MOMENTS}"
"""The forms that `place_named` reads, for the sentence about any other text."""


class Kind(Enum):
    """The meaning of a place's number."""

    START = auto()
    END = auto()
    OFFSET = auto()
    LAST = auto()  # so many records before the end
    TIME = auto()  # Unix ms


@dataclass(frozen=True, slots=True)
class Place:
    """A place in each partition of a topic."""

    kind: Kind
    number: int = 0


START, END = Place(Kind.START), Place(Kind.END)
_ENDS = {"start": START, "end": END, "earliest": START, "latest": END}  # ours, and Kafka's


def place_named(text: str, now_ms: int) -> Place | None:
    """Return the place that a text names (see `PLACES`); None for any other text. `now_ms` is Unix
    time.
    """
    if text in _ENDS:
        return _ENDS[text]
    if text.isascii() and text.isdecimal():
        return Place(Kind.OFFSET, int(text))
    last = _LAST.fullmatch(text)
    if last:
        return Place(Kind.LAST, int(last[1]))
    at_ms = timestamp_ms(text, now_ms)
    return None if at_ms is None else Place(Kind.TIME, max(at_ms, 0))


def offsets_at(
    cluster: ClusterLinks, view: TopicView, partitions: Collection[int], place: Place
) -> dict[TopicPartition, int]:
    """Return the offsets of a place by partition, never outside of the partition.

    Raises OSError, KafkaError.
    """
    if place.kind is Kind.START:
        found = cluster.offsets(view, partitions, EARLIEST)
    elif place.kind is Kind.TIME:
        ends = cluster.offsets(view, partitions, LATEST)
        at_time = cluster.offsets(view, partitions, place.number)
        found = {number: ends[number] if at < 0 else at for number, at in at_time.items()}
    else:
        found = cluster.offsets(view, partitions, LATEST)
    if place.kind in (Kind.OFFSET, Kind.LAST):
        starts = cluster.offsets(view, partitions, EARLIEST)
        for number, end in found.items():
            wanted = place.number if place.kind is Kind.OFFSET else end - place.number
            found[number] = min(max(wanted, starts[number]), end)
    return {TopicPartition(view.name, number): at for number, at in found.items()}
