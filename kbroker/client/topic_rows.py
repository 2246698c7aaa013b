"""Rows that requests and answers hold under their topics, by partition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition

RowT = TypeVar("RowT")


def by_topic(rows: Mapping[TopicPartition, RowT]) -> dict[str, list[RowT]]:
    """Group rows for a request by topic; both keep their order."""
    found: defaultdict[str, list[RowT]] = defaultdict(list)
    for place, row in rows.items():
        found[place.topic].append(row)
    return dict(found)


def numbers_by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group the numbers of partitions by topic; both keep their order."""
    return by_topic({place: place.partition for place in places})


def rows_of(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield each row of an answer's `partitions` with its partition."""
    for topic in topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name or "", row.partition_index), row


def refusal_in(row: Any) -> KafkaError | None:
    """Return what an `error_code` and an `error_message` refuse; None if nothing."""
    if row.error_code == ErrorCode.NONE:
        return None
    return KafkaError(ErrorCode(row.error_code), row.error_message)
