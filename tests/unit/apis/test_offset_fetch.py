"""OffsetFetch in all its versions."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.codec import encode
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.turns import ENTRIES, turns
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer
from tests.fakes.requests.received_answers import received
from tests.fakes.running.loop_turns import counting_turns

pytestmark = pytest.mark.usefixtures("small_or_large")

T0 = TopicPartition("t", 0)


def caller() -> GroupCaller:
    call = GroupCaller()
    value = CommittedOffset(offset=42, leader_epoch=3, metadata="here", commit_timestamp_ms=0)
    call.broker.groups.offsets.commit(Committer("g"), [(T0, value)])
    return call


def of_one(group_id: str = "g", *partitions: int) -> OffsetFetchRequest:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=list(partitions))
    return OffsetFetchRequest(group_id=group_id, topics=[topic])


def of_groups(*groups: OffsetFetchRequest.OffsetFetchRequestGroup) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=list(groups))


def group(
    group_id: str = "g", topic_id: uuid.UUID = TOPIC_ID, *partitions: int
) -> OffsetFetchRequest.OffsetFetchRequestGroup:
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopics(
            name="t", topic_id=topic_id, partition_indexes=list(partitions)
        )
    ]
    return OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)


def rows(topics: list) -> list[tuple[int, int, str | None, int]]:
    return [
        (row.partition_index, row.committed_offset, row.metadata, row.error_code)
        for topic in topics
        for row in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 8))
def test_committed_and_missing_offsets_of_one_group(version: int) -> None:
    response = caller()(of_one("g", 0, 1), version)

    assert rows(response.topics) == [(0, 42, "here", 0), (1, -1, "", 0)]


@pytest.mark.parametrize("version", range(1, 8))
def test_unknown_group_has_no_offsets_and_no_error(version: int) -> None:
    response = caller()(of_one("nobody", 0), version)

    assert (response.error_code, rows(response.topics)) == (0, [(0, -1, "", 0)])


@pytest.mark.parametrize("version", range(2, 8))
def test_null_topics_mean_all(version: int) -> None:
    response = caller()(OffsetFetchRequest(group_id="g", topics=None), version)

    assert rows(response.topics) == [(0, 42, "here", 0)]


@pytest.mark.parametrize("version", range(8, 11))
def test_several_groups_at_once(version: int) -> None:
    response = caller()(
        of_groups(group("g", TOPIC_ID, 0, 1), group("nobody", TOPIC_ID, 0)), version
    )

    assert [(each.group_id, rows(each.topics)) for each in response.groups] == [
        ("g", [(0, 42, "here", 0), (1, -1, "", 0)]),
        ("nobody", [(0, -1, "", 0)]),
    ]


@pytest.mark.parametrize("version", range(8, 11))
def test_null_topics_of_a_group_mean_all(version: int) -> None:
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)

    response = caller()(of_groups(asked), version)

    assert rows(response.groups[0].topics) == [(0, 42, "here", 0)]


def test_unknown_topic_id_is_refused_by_itself() -> None:
    asked = group("g", TOPIC_ID, 0)
    asked.topics += group("g", uuid.UUID(int=99), 0).topics

    response = caller()(of_groups(asked), 10)

    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert rows(response.groups[0].topics) == [(0, 42, "here", 0), (0, -1, "", unknown)]


def test_version_0_reads_the_tree() -> None:
    call = caller()
    asyncio.run(call.broker.legacy_offsets.put("g", T0, 7))

    response = call(of_one("g", 0, 1), 0)

    assert rows(response.topics) == [(0, 7, "", 0), (1, -1, "", 0)]


async def test_others_are_answered_while_the_tree_is_read_for_many_partitions() -> None:
    call, count = caller(), 2 * 8 * ENTRIES
    await call.broker.legacy_offsets.put("g", T0, 7)

    answer, turns = await counting_turns(call.answer(of_one("g", *range(count)), 0))

    assert rows(answer.topics) == [(0, 7, "", 0), *((n, -1, "", 0) for n in range(1, count))]
    assert turns >= 2 * 8


@pytest.mark.parametrize("version", [1, 7, 8, 10])
@pytest.mark.parametrize("leads", [True, False])
def test_others_are_answered_while_offsets_of_very_many_partitions_are_read(
    version: int, leads: bool
) -> None:
    call, count = caller() if leads else GroupCaller(GroupBroker(lead=False)), 20 * ENTRIES
    request = of_one("g", *range(count))
    if version >= 8:
        request = of_groups(group("g", TOPIC_ID, *range(count)))

    answer, turns = asyncio.run(counting_turns(call.answer(request, version)))

    answer = received(answer, version)
    answer = answer.groups[0] if version >= 8 else answer
    code = 0 if leads else ErrorCode.NOT_COORDINATOR
    if not leads and version > 1:
        assert (answer.error_code, answer.topics) == (code, [])
        return
    first = (0, 42, "here", 0) if leads else (0, -1, "", code)
    assert rows(answer.topics) == [first, *((n, -1, "", code) for n in range(1, count))]
    assert turns >= 20


def test_wrong_coordinator_is_said_where_the_version_has_room_for_it() -> None:
    call = GroupCaller(GroupBroker(lead=False))

    per_partition = call(of_one("g", 0), 1)
    per_request = call(of_one("g", 0), 7)
    per_group = call(of_groups(group("g", TOPIC_ID, 0)), 8)

    code = ErrorCode.NOT_COORDINATOR
    assert rows(per_partition.topics) == [(0, -1, "", code)]
    assert (per_request.error_code, per_request.topics) == (code, [])
    assert (per_group.groups[0].error_code, per_group.groups[0].topics) == (code, [])


def test_stable_reads_are_told_to_wait_for_a_commit_on_its_way() -> None:
    call = caller()
    call.broker.replicas.holds = True
    commit = call.broker.groups.offsets.commit
    value = CommittedOffset(offset=43, commit_timestamp_ms=0)

    async def commit_on_its_way() -> None:
        commit(Committer("g"), [(T0, value)])

    asyncio.run(commit_on_its_way())
    asked = of_one("g", 0)
    asked.require_stable = True

    assert rows(call(asked, 7).topics) == [(0, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)]
    assert rows(call(of_one("g", 0), 7).topics) == [(0, 42, "here", 0)]


@pytest.mark.parametrize("version", range(8, 11))
def test_groups_asked_for_together_have_the_bytes_of_those_asked_for_alone(version: int) -> None:
    call = caller()
    asked = [group("g", TOPIC_ID, 0, 1), group("nobody", TOPIC_ID, 0), group("g", TOPIC_ID, 1)]
    together = call(of_groups(*asked), version)
    alone = [each for one in asked for each in call(of_groups(one), version).groups]

    assert encode(together, version) == encode(OffsetFetchResponse(groups=alone), version)


@pytest.mark.parametrize("version", [1, 5, 7])
def test_what_is_asked_for_twice_is_answered_twice(version: int) -> None:
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=list(indexes))
        for indexes in ((0,), (1, 0), (), (0, 0))
    ]

    response = caller()(OffsetFetchRequest(group_id="g", topics=topics), version)

    assert [[row.committed_offset for row in topic.partitions] for topic in response.topics] == [
        [42],
        [-1, 42],
        [],
        [42, 42],
    ]


@pytest.mark.parametrize("version", [5, 8])
def test_topics_of_a_whole_group_are_decided_with_other_requests_in_between(version: int) -> None:
    call = caller()
    committed = call.broker.groups.store.find("g").group.offsets.committed
    value = committed.pop(TopicPartition("t", 0))
    for at in range(1_000):
        committed[TopicPartition(f"t{at}", 0)] = value
    groups = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)]
    in_turn: Counter[int] = Counter()

    class Counting(DenyingAuthorizer):
        def authorize(self, *asked: Any) -> bool:
            in_turn[turns().given] += 1
            return super().authorize(*asked)

    hidden = AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, "t7")
    call.services = replace(call.services, authorizer=Counting(hidden))
    request = OffsetFetchRequest(group_id="g", topics=None, groups=groups)
    response = call.through_stages(request, version)

    shown = response.topics or response.groups[0].topics
    assert len(shown) == 999
    assert "t7" not in {found.name for found in shown}
    assert max(in_turn.values()) <= ENTRIES + 1
