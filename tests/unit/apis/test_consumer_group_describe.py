"""Consumer groups (KIP-848) as administrators see, list and delete them."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.coordinator.group.classic_group import ClassicGroup
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.coordinator.group.coordinated_group import Committer, CoordinatedGroup
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode, KafkaError
from kbroker.features import GROUP_VERSION
from kbroker.model import FinalizedFeatures, TopicPartition
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker, metadata_of
from tests.fakes.brokers.group_caller import GroupCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer

pytestmark = pytest.mark.usefixtures("small_or_large")

GROUP = AclResource(AclResourceType.GROUP, "g")
TOPIC = AclResource(AclResourceType.TOPIC, "t")


def caller(level: int = 1, **settings: Any) -> GroupCaller:
    """A broker with two members of the consumer group g, and the classic group old."""
    call = GroupCaller(GroupBroker(consumer_groups=consumer_groups(), **settings))
    call.broker.metadata.finalized_features = FinalizedFeatures({GROUP_VERSION: level}, 1)
    MemberOf(call.broker, "m1").join()
    MemberOf(call.broker, "m2", instance_id="i").join()
    call.broker.stable_member("old")
    return call


def denied(call: GroupCaller, *denials: tuple[AclOperation, AclResource]) -> GroupCaller:
    call.services = replace(call.services, authorizer=DenyingAuthorizer(*denials))
    return call


def describe(call: GroupCaller, *names: str, version: int = 1, **fields: Any) -> Any:
    return call(ConsumerGroupDescribeRequest(group_ids=list(names), **fields), version).groups


@pytest.mark.parametrize("version", [0, 1])
def test_a_group_is_described_with_its_members(version: int) -> None:
    [group] = describe(caller(), "g", version=version)

    assert (group.error_code, group.error_message, group.group_state) == (0, None, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    assert group.authorized_operations == -(2**31)
    first, second = sorted(group.members, key=lambda member: str(member.member_id))
    assert (first.member_id, first.instance_id, first.rack_id) == ("m1", None, None)
    assert (second.member_id, second.instance_id, second.member_epoch) == ("m2", "i", 3)
    assert (first.client_id, first.client_host, first.member_epoch) == ("c", "/127.0.0.1", 2)
    assert (first.subscribed_topic_names, first.member_type) == (["t"], 1 if version else -1)
    [topic] = first.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (TOPIC_ID, "t", [0, 1, 2, 3])
    assert second.assignment.topic_partitions == []
    targets = [each.target_assignment.topic_partitions[0].partitions for each in (first, second)]
    assert sorted(chain.from_iterable(targets)) == [0, 1, 2, 3]


def test_others_are_refused_by_themselves() -> None:
    groups = describe(caller(), "old", "gone", "g", "", "g", include_authorized_operations=True)

    assert [(each.group_id, each.error_code, each.error_message) for each in groups] == [
        ("old", ErrorCode.GROUP_ID_NOT_FOUND, "Group old is not a consumer group."),
        ("gone", ErrorCode.GROUP_ID_NOT_FOUND, "Group gone not found."),
        ("g", ErrorCode.NONE, None),
        ("", ErrorCode.INVALID_GROUP_ID, None),
        ("g", ErrorCode.NONE, None),
    ]
    assert [len(each.members) for each in groups] == [0, 0, 2, 0, 2]
    operations = [each.authorized_operations for each in groups]
    assert operations[0] == -(2**31)
    assert operations[2] == 0b1101_0100_1000


def test_a_group_is_counted_once_however_often_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = caller()
    counted: list[CoordinatedGroup] = []

    def count(group: CoordinatedGroup) -> int:
        counted.append(group)
        return 1

    monkeypatch.setattr(CoordinatedConsumerGroup, "shown_bytes", count)
    monkeypatch.setattr(ClassicGroup, "described_bytes", count)

    assert len(describe(call, *["g"] * 100)) == 100
    assert len(call(DescribeGroupsRequest(groups=["old"] * 100), 5).groups) == 100

    assert [group.group_id for group in counted] == ["g", "old"]


def test_a_topic_that_the_client_may_not_see_hides_the_group() -> None:
    [group] = describe(denied(caller(), (AclOperation.DESCRIBE, TOPIC)), "g")

    assert (group.error_code, group.group_state) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "")
    assert group.error_message == (
        "The group has described topic(s) that the client is not authorized to describe."
    )
    assert group.members == []


def test_a_group_that_the_client_may_not_see_is_refused() -> None:
    call = denied(caller(), (AclOperation.DESCRIBE, GROUP))

    answer = call.through_stages(ConsumerGroupDescribeRequest(group_ids=["g", "old"]), 1)

    assert [(each.group_id, each.error_code) for each in answer.groups] == [
        ("old", ErrorCode.GROUP_ID_NOT_FOUND),
        ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]


@pytest.mark.parametrize(
    "settings",
    [{"level": 0}, {"group_coordinator_rebalance_protocols": ("classic",)}],
    ids=["no level", "no protocol"],
)
def test_where_none_are_served_all_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(KafkaError) as refused:
        describe(caller(**settings), "g")

    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("version", [5, 6])
def test_describe_groups_does_not_know_it(version: int) -> None:
    [group] = caller()(DescribeGroupsRequest(groups=["g"]), version).groups

    assert (group.group_state, group.protocol_type, group.members) == ("Dead", "", [])
    if version == 6:
        assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert group.error_message == "Group g is not a classic group."
    else:
        assert group.error_code == ErrorCode.NONE


def test_it_is_listed_by_type_and_state() -> None:
    call = caller()

    def listed(version: int = 5, **filters: list[str]) -> list[tuple[str, ...]]:
        return [
            (each.group_id, each.group_type, each.group_state, each.protocol_type)
            for each in call(ListGroupsRequest(**filters), version).groups
        ]

    new = ("g", "consumer", "Reconciling", "consumer")
    old = ("old", "classic", "Stable", "consumer")
    assert sorted(listed()) == [new, old]
    assert listed(types_filter=["CONSUMER"]) == [new]
    assert listed(types_filter=["classic", "no such type"]) == [old]
    assert listed(types_filter=["share"]) == []
    assert listed(types_filter=["no such type"]) == []
    assert listed(states_filter=[" reconciling\t", "no such state"]) == [new]
    assert listed(states_filter=["Stable"], types_filter=["consumer"]) == []
    assert sorted(listed(4)) == [(each[0], "", each[2], each[3]) for each in (new, old)]


def test_it_is_deleted_once_it_is_empty() -> None:
    call = caller()
    delete = DeleteGroupsRequest(groups_names=["g"])
    [refused] = call(delete, 2).results
    for member_id, more in (("m1", {}), ("m2", {"instance_id": "i"})):
        MemberOf(call.broker, member_id, **more).send(member_epoch=-1)

    [deleted] = call(delete, 2).results

    assert ErrorCode(refused.error_code) is ErrorCode.NON_EMPTY_GROUP
    assert deleted.error_code == 0
    assert [each.group_id for each in call(ListGroupsRequest(), 5).groups] == ["old"]


def test_offsets_of_subscribed_topics_are_kept() -> None:
    call = caller()
    call.broker.metadata.update(metadata_of({"t": 4, "u": 1}))
    value = CommittedOffset(offset=1, commit_timestamp_ms=0)
    places = [TopicPartition("t", 0), TopicPartition("u", 0)]
    call.broker.groups.offsets.commit(Committer("g", "m2", None, 3), [(p, value) for p in places])
    asked = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition = OffsetDeleteRequest.OffsetDeleteRequestPartition

    answer = call(
        OffsetDeleteRequest(
            group_id="g",
            topics=[asked(name=each, partitions=[partition()]) for each in ("t", "u")],
        ),
        0,
    )

    assert answer.error_code == 0
    assert [each.partitions[0].error_code for each in answer.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
    ]
    assert call.broker.groups.offsets.stored("g") == [TopicPartition("t", 0)]
