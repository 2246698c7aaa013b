"""Consumer groups (KIP-848): members join, go on, give up, get, leave, and are missed."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kbroker.coordinator.consumer_group.changes import removal_of_group
from kbroker.coordinator.group.coordinated_consumer_group import CoordinatedConsumerGroup
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from tests.fakes.brokers.consumer_groups import (
    HEARTBEAT_MS,
    REBALANCE_MS,
    SESSION_MS,
    MemberOf,
    Settings,
    consumer_groups,
    owned,
    refusal,
    topic,
)
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(consumer_groups=consumer_groups())


def group(broker: GroupBroker, group_id: str = "g") -> Any:
    found = broker.groups.store.find(group_id)
    assert isinstance(found, CoordinatedConsumerGroup)
    return found.group


def state(broker: GroupBroker) -> str:
    return group(broker).state.value


# ---- joining


def test_the_first_member_gets_all_partitions_in_the_second_epoch(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")

    answer = member.join()

    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m1", 2)
    assert answer.heartbeat_interval_ms == HEARTBEAT_MS
    assert member.told == [0, 1, 2, 3]
    assert state(broker) == "Stable"


def test_a_member_that_chooses_no_id_gets_one(broker: GroupBroker) -> None:
    member = MemberOf(broker, "")

    answer = member.join(version=0)

    assert answer.error_code == 0
    assert str(uuid.UUID(answer.member_id)) == answer.member_id


def test_what_has_not_changed_is_not_told_again(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()

    assert member.beat([0, 1, 2, 3]).assignment is None
    assert member.beat().assignment is None
    says_all = member.send(
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=["t"],
        topic_partitions=owned(member.told),
    )
    assert says_all.assignment is not None


def test_a_partition_changes_hands_once_it_was_given_up(broker: GroupBroker) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    second.join()
    assert (second.epoch, second.told) == (3, [])
    assert state(broker) == "Reconciling"

    revoking = first.beat([0, 1, 2, 3])
    assert (revoking.member_epoch, len(first.told)) == (2, 2)
    assert second.beat([]).assignment is None

    assert first.beat(first.told).member_epoch == 3
    second.beat([])

    assert sorted(first.told + second.told) == [0, 1, 2, 3]
    assert state(broker) == "Stable"


def test_a_member_that_joins_again_is_told_everything(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()

    answer = member.join()

    assert answer.member_epoch == 2
    assert answer.assignment is not None


def test_a_target_is_not_computed_more_often_than_the_interval_allows() -> None:
    settings = Settings(assignment_interval_ms=10_000)
    broker = GroupBroker(consumer_groups=consumer_groups(settings))
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()

    assert second.join().member_epoch == 2
    assert state(broker) == "Assigning"

    broker.time.advance(10_000)
    assert second.beat([]).member_epoch == 3


def test_a_full_group_takes_nobody_in() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(max_size=1))
    MemberOf(broker, "m1").join()

    answer = MemberOf(broker, "m2").join()

    assert refusal(answer) == (
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        "The consumer group has reached its maximum capacity of 1 members.",
    )
    assert MemberOf(broker, "m1").join().error_code == 0


# ---- topics


def test_a_topic_that_grows_or_comes_brings_a_new_epoch(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1", ("t", "later"))
    member.join()
    broker.metadata.update(topic("t", TOPIC_ID, 5))

    assert member.beat().member_epoch == 3
    assert member.told == [0, 1, 2, 3, 4]

    later = uuid.UUID(int=9)
    broker.metadata.update(topic("later", later, 1))
    answer = member.beat()
    assert answer.assignment is not None
    assert {each.topic_id for each in answer.assignment.topic_partitions} == {TOPIC_ID, later}


def test_news_of_other_topics_wakes_nobody(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    found = broker.groups.store.find("g")

    broker.metadata.update(topic("other", uuid.UUID(int=9), 3))
    broker.metadata.update(topic("t", TOPIC_ID, 4))

    assert not found.attendance.must_look_at_topics
    assert member.beat().member_epoch == 2


def test_topics_that_a_member_leaves_are_taken_away_at_once(broker: GroupBroker) -> None:
    other = uuid.UUID(int=9)
    broker.metadata.update(topic("other", other, 1))
    member = MemberOf(broker, "m1", ("t", "other"))
    member.join()

    answer = member.send(subscribed_topic_names=["other"])

    assert answer.member_epoch == 2
    assert answer.assignment is not None
    assert [each.topic_id for each in answer.assignment.topic_partitions] == [other]


# ---- epochs


def test_a_member_in_another_epoch_is_fenced(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()

    for epoch, size in ((5, "greater"), (1, "smaller")):
        answer = member.send(member_epoch=epoch)
        assert refusal(answer) == (
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {size} member epoch ({epoch}) than the one known by"
            " the group coordinator (2). The member must abandon all its partitions and rejoin.",
        )


def test_the_epoch_before_is_good_if_the_answer_may_have_been_lost(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    broker.metadata.update(topic("t", TOPIC_ID, 5))
    member.beat()

    lost = member.send(member_epoch=2, topic_partitions=owned([0, 1]))
    assert lost.error_code == 0
    assert lost.member_epoch == 3
    beyond = member.send(member_epoch=2, topic_partitions=owned([7]))
    assert ErrorCode(beyond.error_code) is ErrorCode.FENCED_MEMBER_EPOCH


# ---- leaving


def test_who_leaves_is_gone_and_the_others_share_what_it_had(broker: GroupBroker) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    second.join()

    answer = first.send(member_epoch=-1)

    assert (answer.error_code, answer.member_epoch) == (0, -1)
    second.beat([])
    assert second.told == [0, 1, 2, 3]
    gone = first.beat()
    assert refusal(gone) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member m1 is not a member of group g.",
    )


def test_who_is_not_heard_of_is_missed(broker: GroupBroker) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    second.join()
    for _ in range(SESSION_MS // HEARTBEAT_MS):
        broker.time.advance(HEARTBEAT_MS)
        second.beat([])

    assert list(group(broker).members) == ["m2"]
    second.beat([])
    assert second.told == [0, 1, 2, 3]


def test_who_does_not_give_up_partitions_in_time_is_fenced(broker: GroupBroker) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    second.join()
    first.beat([0, 1, 2, 3])
    for _ in range(REBALANCE_MS // HEARTBEAT_MS):
        broker.time.advance(HEARTBEAT_MS)
        first.beat([0, 1, 2, 3])
        second.beat([])

    assert list(group(broker).members) == ["m2"]


def test_the_last_member_leaves_an_empty_group_that_can_be_deleted(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    assert broker.groups.delete_group("g") is ErrorCode.NON_EMPTY_GROUP
    member.send(member_epoch=-1)
    assert state(broker) == "Empty"

    assert broker.groups.delete_group("g") is ErrorCode.NONE

    assert broker.groups.store.find("g") is None
    assert len(broker.restarted(consumer_groups=consumer_groups()).groups.store) == 0


def test_a_group_whose_end_is_on_its_way_is_as_a_new_one(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    member.send(member_epoch=-1)
    ending = group(broker)

    for change in removal_of_group(ending.members, ending.resolved):
        ending.apply(change)

    assert (ending.metadata.epoch, ending.target_metadata.assignment_epoch) == (1, 1)


# ---- static members


def test_a_static_member_comes_back_to_what_it_had(broker: GroupBroker) -> None:
    before = MemberOf(broker, "m1", instance_id="i")
    before.join()
    MemberOf(broker, "m2").join()
    assert before.send(member_epoch=-2).member_epoch == -2

    after = MemberOf(broker, "m3", instance_id="i")
    answer = after.join()

    assert answer.error_code == 0
    assert len(after.told) == 2
    assert sorted(group(broker).members) == ["m2", "m3"]
    fenced = before.beat()
    assert refusal(fenced) == (
        ErrorCode.FENCED_INSTANCE_ID,
        "Static member m1 with instance id i was fenced by member m3.",
    )


def test_the_place_of_a_static_member_that_is_there_is_not_free(broker: GroupBroker) -> None:
    MemberOf(broker, "m1", instance_id="i").join()

    answer = MemberOf(broker, "m2", instance_id="i").join()

    assert refusal(answer) == (
        ErrorCode.UNRELEASED_INSTANCE_ID,
        "Static member m2 with instance id i cannot join the group because the instance id is"
        " owned by m1 member.",
    )
    unknown = MemberOf(broker, "m2", instance_id="other").send(member_epoch=3)
    assert refusal(unknown) == (ErrorCode.UNKNOWN_MEMBER_ID, "Instance id other is unknown.")


def test_a_static_member_that_stays_away_is_missed(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1", instance_id="i")
    member.join()
    member.send(member_epoch=-2)

    broker.time.advance(SESSION_MS)

    assert state(broker) == "Empty"


# ---- what is refused


JOIN = {
    "rebalance_timeout_ms": REBALANCE_MS,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
PARTITIONS = [ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]
REFUSED = [
    ({**JOIN, "member_id": ""}, "MemberId can't be empty."),
    ({**JOIN, "group_id": " "}, "GroupId can't be empty."),
    ({**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
    ({**JOIN, "rack_id": "\t"}, "RackId can't be empty."),
    (
        {**JOIN, "rebalance_timeout_ms": -1},
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    ({**JOIN, "topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ({**JOIN, "topic_partitions": PARTITIONS}, "TopicPartitions must be empty when (re-)joining."),
    (
        {**JOIN, "subscribed_topic_names": None},
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    ({"member_epoch": -2}, "InstanceId can't be null."),
    ({"member_epoch": -3}, "MemberEpoch is invalid."),
]


@pytest.mark.parametrize(("fields", "sentence"), REFUSED)
def test_wrong_heartbeats_are_refused_and_leave_nothing(
    broker: GroupBroker, fields: dict[str, Any], sentence: str
) -> None:
    answer = MemberOf(broker, "m1").send(**fields)

    assert refusal(answer) == (ErrorCode.INVALID_REQUEST, sentence)
    assert len(broker.groups.store) == 0


def test_an_assignor_that_is_not_there_is_refused(broker: GroupBroker) -> None:
    answer = MemberOf(broker, "m1").join(server_assignor="nope")

    code, sentence = refusal(answer)
    assert code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert sentence is not None
    assert sentence.startswith("ServerAssignor nope is not supported. Supported assignors: ")


def test_a_group_that_is_not_there_has_no_members(broker: GroupBroker) -> None:
    answer = MemberOf(broker, "m1").send(member_epoch=5)

    assert refusal(answer) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    broker.stable_member()
    joined = MemberOf(broker, "m1").join()
    assert refusal(joined) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    )


def test_names_that_fit_no_record_are_refused(broker: GroupBroker) -> None:
    long_ones = MemberOf(broker, "m" * 40_000), MemberOf(broker, "m1", client_id="\ufffd" * 20_000)

    for member in long_ones:
        answer = member.join()
        assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert len(broker.groups.store) == 0


# ---- loading


def test_members_that_come_back_to_another_coordinator_go_on_in_their_epoch(
    broker: GroupBroker,
) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    second.join()
    first.beat([0, 1, 2, 3])

    other = broker.restarted(consumer_groups=consumer_groups())

    first.broker = second.broker = other
    first.beat(first.told)
    second.beat([])
    assert (first.epoch, second.epoch) == (3, 3)
    assert sorted(first.told + second.told) == [0, 1, 2, 3]
    other.time.advance(SESSION_MS)
    assert state(other) == "Empty"


def test_a_group_that_only_kept_offsets_becomes_a_consumer_group_with_them(
    broker: GroupBroker,
) -> None:
    broker.stable_member()
    [member_id] = group_members(broker)
    leaving = LeaveGroupRequest.MemberIdentity(member_id=member_id)
    broker.groups.leave_group("g", [leaving])

    member = MemberOf(broker, "m1")
    assert member.join().error_code == 0

    again = broker.restarted(consumer_groups=consumer_groups())
    assert [each.kind for each in again.groups.store] == ["consumer"]


def group_members(broker: GroupBroker) -> list[str]:
    return list(broker.groups.store.find("g").group.members)


def test_members_that_go_from_topic_to_topic_leave_nothing_behind(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    followers = broker.groups.consumer_groups.groups.followers
    for number in range(60):
        other = MemberOf(broker, "m1", group_id=f"g{number}")
        assert other.join(subscribed_topic_names=["t", f"of-g{number}"]).error_code == 0
        assert other.send(member_epoch=-1).error_code == 0
        names = [f"t{number}-{each}" for each in range(100)]
        assert member.send(subscribed_topic_names=["t", *names]).error_code == 0

    assert len(followers) < 3_000

    epoch = member.epoch
    broker.metadata.update(topic("t59-7", uuid.UUID(int=8), 1))
    member.beat(member.told)
    assert member.epoch == epoch + 1
