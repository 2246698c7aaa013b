"""Offsets of many partitions at one moment: one question per leader, however many partitions. For
the pipeline, whose clients are kafka-python's; commands ask by `topic_figures`.

Law: a partition that does not answer is left out and spoils no other. The client library raises for
all of a question where one partition is refused, so a refused question is halved; a broker that
cannot be reached is asked once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.protocol.consumer.offsets import IsolationLevel
from kafka.structs import OffsetAndTimestamp, TopicPartition

_NO_LEADER = -1
_UNREACHABLE = (KafkaConnectionError, KafkaTimeoutError)


def leaders_of(described: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    """The leader of each partition that has one, from what `describe_topics` answered."""
    return {
        TopicPartition(topic["name"], partition["partition_index"]): partition["leader_id"]
        for topic in described
        for partition in topic["partitions"]
        if partition["leader_id"] != _NO_LEADER
    }


def offsets_at(
    admin: Any,
    leaders: Mapping[TopicPartition, int],
    moment: Any,
    *,
    only_committed: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Offset and timestamp of each partition at a moment: an `OffsetSpec`, or Unix milliseconds;
    `only_committed`: up to the first open transaction.

    A time that no record is as late as has offset -1.
    """
    level = IsolationLevel.READ_COMMITTED if only_committed else IsolationLevel.READ_UNCOMMITTED
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in leaders.items():
        by_leader[leader].append(partition)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    for partitions in by_leader.values():
        found.update(_answers(admin, partitions, moment, level))
    return found


def _answers(
    admin: Any, partitions: Sequence[TopicPartition], moment: Any, level: IsolationLevel
) -> dict[TopicPartition, OffsetAndTimestamp]:
    try:
        answers: dict[TopicPartition, OffsetAndTimestamp] = admin.list_partition_offsets(
            dict.fromkeys(partitions, moment), isolation_level=level
        )
        return answers
    except _UNREACHABLE:
        return {}
    except KafkaError:
        if len(partitions) == 1:
            return {}
    half = len(partitions) // 2
    first = _answers(admin, partitions[:half], moment, level)
    return first | _answers(admin, partitions[half:], moment, level)
