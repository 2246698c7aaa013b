"""ConsumerGroupHeartbeat at group.version 1, and commits and reads of members."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.errors import ErrorCode, KafkaError
from kbroker.features import GROUP_VERSION
from kbroker.model import FinalizedFeatures
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest
from tests.fakes.brokers.beside import Beside, turns
from tests.fakes.brokers.consumer_groups import REBALANCE_MS, consumer_groups, topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer


def caller(level: int = 1) -> GroupCaller:
    call = GroupCaller(GroupBroker(consumer_groups=consumer_groups()))
    call.broker.metadata.finalized_features = FinalizedFeatures({GROUP_VERSION: level}, 1)
    return call


def beat(call: GroupCaller, epoch: int = 0, **fields: Any) -> Any:
    return call(heartbeat(epoch, **fields), 1)


def heartbeat(epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    first: dict[str, Any] = {
        "rebalance_timeout_ms": REBALANCE_MS,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    given = first if epoch == 0 else {}
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, **{**given, **fields}
    )


def test_below_the_level_nobody_is_served() -> None:
    with pytest.raises(KafkaError) as refused:
        beat(caller(0))

    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_of_very_many_topics_a_member_may_describe_each() -> None:
    call = caller()
    names = [f"t{number}" for number in range(600)]
    denied = AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, "t599")
    call.services = replace(call.services, authorizer=DenyingAuthorizer(denied))

    refused = beat(call, subscribed_topic_names=names)
    joined = beat(call, subscribed_topic_names=names[:-1])

    assert (refused.error_code, joined.error_code) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)


def test_a_member_joins_and_goes_on() -> None:
    call = caller()

    joined = beat(call)

    assert (joined.error_code, joined.member_epoch) == (0, 2)
    assert [each.partitions for each in joined.assignment.topic_partitions] == [[0, 1, 2, 3]]
    assert beat(call, 2).assignment is None


@pytest.mark.parametrize(
    ("denied", "code"),
    [
        (
            (AclOperation.READ, AclResource(AclResourceType.GROUP, "g")),
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ),
        (
            (AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, "t")),
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ),
    ],
)
def test_a_member_may_read_its_group_and_see_its_topics(denied: Any, code: ErrorCode) -> None:
    call = caller()
    call.services = replace(call.services, authorizer=DenyingAuthorizer(denied))

    answer = beat(call)

    assert ErrorCode(answer.error_code) is code
    assert len(call.broker.groups.store) == 0


async def test_a_pattern_finds_topics_that_the_member_may_see() -> None:
    pytest.importorskip("re2")
    call = caller()
    store = call.broker.groups.store
    store.beside = beside = Beside()
    call.broker.metadata.update(topic("hidden", UUID(int=9), 1))
    denied = AclOperation.DESCRIBE, AclResource(AclResourceType.TOPIC, "hidden")
    call.services = replace(call.services, authorizer=DenyingAuthorizer(denied))

    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": "t|hidden"}
    assert (await call.answer(heartbeat(**fields), 1)).error_code == 0
    await turns()
    await beside.finish()

    assert store.find("g").group.resolved["t|hidden"].topics == {"t"}


def test_a_member_commits_and_reads_in_its_epoch() -> None:
    call = caller()
    beat(call)

    def commit(epoch: int, version: int = 9) -> ErrorCode:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=7
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])
        request = OffsetCommitRequest(
            group_id="g", member_id="m", generation_id_or_member_epoch=epoch, topics=[topic]
        )
        return ErrorCode(call(request, version).topics[0].partitions[0].error_code)

    def read(epoch: int) -> tuple[ErrorCode, list[int]]:
        topic = OffsetFetchRequest.OffsetFetchRequestTopics(
            name="t", topic_id=TOPIC_ID, partition_indexes=[0]
        )
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id="g", member_id="m", member_epoch=epoch, topics=[topic]
        )
        [group] = call(OffsetFetchRequest(groups=[asked]), 9).groups
        rows = [row.committed_offset for each in group.topics for row in each.partitions]
        return ErrorCode(group.error_code), rows

    assert commit(2) is ErrorCode.NONE
    assert commit(1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(2, 8) is ErrorCode.UNSUPPORTED_VERSION
    assert read(2) == (ErrorCode.NONE, [7])
    assert read(1)[0] is ErrorCode.STALE_MEMBER_EPOCH
