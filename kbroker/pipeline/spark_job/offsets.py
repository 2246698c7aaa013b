"""Offsets as Spark's Kafka source writes them, `{"topic": {"0": 123}}`, and the ranges between two
such maps.

Law: an offset is the next one to read, as in Kafka, so the end of a range is exclusive. Values
only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbroker.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition, `end` exclusive."""

    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of offsets; records may be fewer, as compaction and markers leave holes."""
        return max(self.end - self.start, 0)


Ranges = Mapping[TopicPartition, OffsetRange]


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Parse the map that Spark wrote; raises ValueError that says what is wrong."""
    found: Any = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{text[:80]!r} is not a JSON object of topics")
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in found.items():
        if not isinstance(partitions, dict):
            raise ValueError(f"topic {topic} has {partitions!r} for its partitions")
        for partition, offset in partitions.items():
            if not (str(partition).isdecimal() and type(offset) is int):
                raise ValueError(f"topic {topic} has {partition!r}: {offset!r}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def format_offsets(offsets: Offsets) -> str:
    """Write a map, always as the same text: topics by name, partitions by number."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(by_topic, separators=(",", ":"))


def ranges_between(previous: Offsets, current: Offsets) -> dict[TopicPartition, OffsetRange]:
    """Return the ranges between two maps, without partitions that did not move.

    A partition that `previous` lacks starts at 0, as Spark starts one that was added. Raises
    ValueError if a partition went backwards.
    """
    ranges: dict[TopicPartition, OffsetRange] = {}
    for partition, end in sorted(current.items()):
        start = previous.get(partition, 0)
        if end < start:
            raise ValueError(f"{partition} went back from offset {start} to {end}")
        if end > start:
            ranges[partition] = OffsetRange(start, end)
    return ranges


def total(ranges: Ranges) -> int:
    """Return the number of offsets in all ranges."""
    return sum(each.count for each in ranges.values())
