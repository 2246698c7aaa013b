"""Tells when the next record that a group will read was written: read from the record itself.

No request returns the timestamp at an offset, so batches are fetched, those of many partitions with
one request.

Law: bounded in time. A partition that does not answer in time has no timestamp, and nothing waits
for it: a look at lag must not hang on one broker.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.fetched_batches import fetched_batches, record_lists
from kbroker.client.raw_fetch import RawFetch, fetch_raw
from kbroker.client.topic_figures import leaders_in
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition

# Two batches of a producer with default settings. A larger one takes a request of its own.
_PARTITION_BYTES = 32_768
_PARTITIONS_AT_ONCE = 100
DEADLINE_S = 10.0

Positions = Mapping[TopicPartition, Collection[int]]
Times = dict[tuple[TopicPartition, int], int | None]


class _Question(NamedTuple):
    """The time at a position is wanted, and all offsets before `offset` have been seen; `is_alone`:
    the next batch was cut off when it was fetched beside others.
    """

    partition: TopicPartition
    position: int
    offset: int
    is_alone: bool = False


def record_times(
    links: ClusterLinks,
    positions: Positions,
    ends: Mapping[TopicPartition, int],
    clock: Callable[[], float] = time.monotonic,
) -> Times:
    """Return the timestamp (Unix ms) of the first record at or after each position.

    None if no record follows before the end: only markers of transactions, or holes that compaction
    left. A position is missing if it was not answered in time or if the batch there cannot be read.
    Raises OSError if no broker answers.
    """
    deadline_s = clock() + DEADLINE_S
    found: Times = {}
    if not positions:
        return found
    leaders = leaders_in(links.topics({partition.topic for partition in positions}))
    by_leader: defaultdict[int, list[_Question]] = defaultdict(list)
    for partition, offsets in positions.items():
        for offset in offsets if partition in leaders else ():
            by_leader[leaders[partition]].append(_Question(partition, offset, offset))
    for leader, waiting in by_leader.items():
        while waiting and clock() < deadline_s:
            asked = _next(waiting)
            try:
                answers = fetch_raw(
                    links,
                    leader,
                    {each.partition: each.offset for each in asked},
                    _PARTITION_BYTES,
                    only_committed=False,
                )
            except (OSError, ClientError, KafkaError):
                break
            again = [
                question
                for each in asked
                if each.partition in answers
                for question in _seen(each, answers[each.partition], ends, found)
            ]
            waiting = again + [each for each in waiting if each not in asked]
    return found


def _next(waiting: list[_Question]) -> list[_Question]:
    """Return the questions to ask at once: one per partition; one that is alone by itself."""
    if waiting[0].is_alone:
        return waiting[:1]
    by_partition = {each.partition: each for each in reversed(waiting) if not each.is_alone}
    return list(by_partition.values())[:_PARTITIONS_AT_ONCE]


def _seen(
    question: _Question, answer: RawFetch, ends: Mapping[TopicPartition, int], found: Times
) -> list[_Question]:
    """Note the time if the answer has it; return what to ask next of this partition."""
    partition, position, offset, is_alone = question
    if answer.code:
        return []
    offset = max(offset, 0 if answer.records else answer.log_start_offset)
    try:
        for batch in fetched_batches(partition, memoryview(answer.records), offset, None):
            unreadable: list[str] = []
            records = next(record_lists(batch, unreadable.append), [])
            if records:
                stamp = batch.header.stamp
                time_ms = records[0].timestamp if stamp is None else stamp
                found[partition, position] = time_ms if time_ms >= 0 else None
                return []
            if unreadable:
                return []
            offset = batch.header.next_offset  # markers, or holes
    except KafkaError:
        return []
    if offset >= ends[partition]:
        found[partition, position] = None
        return []
    if offset > question.offset:
        return [_Question(partition, position, offset)]
    return [] if is_alone else [question._replace(is_alone=True)]
