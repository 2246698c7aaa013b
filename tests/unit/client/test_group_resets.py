"""Plans of resets: what is refused, what is moved, and what stays."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.consumer_groups import ConsumerGroup, GroupMember
from kbroker.client.group_resets import (
    PlannedOffset,
    ResetRefusedError,
    has_members_first,
    planned_reset,
)
from kbroker.client.reset_targets import Target
from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataResponse

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroup(name="g", state="Empty", committed={P0: 5, P1: None})


class Links:
    """A topic with two partitions, which have offsets 3 to 10."""

    def describe(self, _names: Any) -> MetadataResponse:
        partition = MetadataResponse.MetadataResponsePartition
        rows = [partition(partition_index=n, leader_id=1) for n in range(2)]
        topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=rows)
        return MetadataResponse(topics=[topic])

    def ask(self, _node_id: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        rows = [
            ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=each.partition_index, offset=3 if each.timestamp == -2 else 10
            )
            for each in request.topics[0].partitions
        ]
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=rows)
        return ListOffsetsResponse(topics=[topic])


LINKS = cast("ClusterLinks", Links())


def test_partitions_with_and_without_a_new_offset_are_both_reported() -> None:
    said: list[str] = []

    plan = planned_reset(LINKS, GROUP, {}, Target(shift=7), said.append)

    assert plan.offsets == [PlannedOffset(P0, 5, 10, 3, 10)]
    assert plan.failures == ["t-1: nothing is committed there that could be moved"]
    assert said == ["t-0: offset 12 is not there, 10 is taken instead"]


def test_each_unknown_partition_has_a_sentence() -> None:
    with pytest.raises(ResetRefusedError) as refused:
        planned_reset(LINKS, GROUP, {"t": frozenset({2, 3})}, Target(offset=4), lambda _: None)

    assert refused.value.sentences == [
        "no such partition: t-2 (the topic has 2 partitions)",
        "no such partition: t-3 (the topic has 2 partitions)",
    ]
    assert refused.value.sentence == refused.value.sentences[-1]


def test_an_unknown_topic_points_to_what_says_more() -> None:
    with pytest.raises(ResetRefusedError, match="no such topic: tt, did you mean t") as refused:
        planned_reset(LINKS, GROUP, {"tt": frozenset()}, Target(offset=4), lambda _: None)

    assert refused.value.trouble is Trouble.UNKNOWN_TOPIC


def test_members_are_named_by_the_programs_they_are() -> None:
    members = tuple(
        GroupMember(member_id=f"m{n}", client_id=client, host="/h")
        for n, client in enumerate(["b", "a", "a"])
    )
    group = ConsumerGroup(name="g", state="Stable", committed={}, members=members)

    assert has_members_first(group) == (
        "it has 3 members (a, b), which would go on where they are; stop them first"
    )
