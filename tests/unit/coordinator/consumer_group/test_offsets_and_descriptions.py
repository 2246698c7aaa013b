"""Consumer groups (KIP-848): offsets and member epochs, and what people see."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.transaction.producer import Producer
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups, topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker

T0, T4 = TopicPartition("t", 0), TopicPartition("t", 4)


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(consumer_groups=consumer_groups())


def commit(broker: GroupBroker, *about: Any, place: TopicPartition = T0) -> ErrorCode:
    value = CommittedOffset(offset=5, commit_timestamp_ms=broker.time.now_ms())
    [code] = broker.groups.offsets.commit(Committer("g", *about), [(place, value)])
    return ErrorCode(code)


def in_third_epoch(broker: GroupBroker) -> MemberOf:
    """A member that got the partitions 0 to 3 in epoch 2, and 4 in epoch 3."""
    member = MemberOf(broker, "m1")
    member.join()
    broker.metadata.update(topic("t", TOPIC_ID, 5))
    member.beat()
    assert member.epoch == 3
    return member


def test_a_member_commits_in_its_epoch_and_for_what_it_had_in_the_one_before(
    broker: GroupBroker,
) -> None:
    in_third_epoch(broker)

    assert commit(broker, "m1", None, 3) is ErrorCode.NONE
    assert commit(broker, "m1", None, 2) is ErrorCode.NONE
    assert commit(broker, "m1", None, 2, place=T4) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(broker, "m1", None, 4) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(broker, "m2", None, 3) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(broker, "", None, -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(broker, "m1", None, 3, 8) is ErrorCode.UNSUPPORTED_VERSION


def test_of_an_empty_group_everybody_may_commit(broker: GroupBroker) -> None:
    member = MemberOf(broker, "m1")
    member.join()
    member.send(member_epoch=-1)

    assert commit(broker) is ErrorCode.NONE


def test_a_producer_that_names_no_member_is_trusted(broker: GroupBroker) -> None:
    in_third_epoch(broker)
    value = CommittedOffset(offset=5, commit_timestamp_ms=0)
    producer = Producer(1, 0)

    def attempt(*about: Any) -> list[ErrorCode]:
        found = broker.groups.offsets.commit_in_transaction(
            Committer("g", *about), producer, [(T0, value)]
        )
        return list(found)

    assert attempt() == [ErrorCode.NONE]
    assert attempt("m1", None, 3) == [ErrorCode.NONE]
    assert attempt("m1", None, 9) == [ErrorCode.ILLEGAL_GENERATION]
    assert attempt("m9", None, 3) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_reads_offsets_in_its_epoch(broker: GroupBroker) -> None:
    in_third_epoch(broker)
    check = broker.groups.offsets.check_reader

    check("g", None, -1)
    check("g", "m1", 3)
    check("not there", "m1", 3)
    for member_id, epoch, code in (
        ("m1", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("m2", 3, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as refused:
            check("g", member_id, epoch)
        assert refused.value.code is code


def test_offsets_of_topics_that_members_follow_stay(broker: GroupBroker) -> None:
    in_third_epoch(broker)
    commit(broker, "m1", None, 3)
    other = TopicPartition("other", 0)

    codes = broker.groups.delete_offsets("g", [T0, other])

    assert codes == {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, other: ErrorCode.NONE}


def test_an_empty_group_stays_when_an_administrator_deletes_its_last_offset(
    broker: GroupBroker,
) -> None:
    member = in_third_epoch(broker)
    commit(broker, "m1", None, 3)
    member.send(member_epoch=-1)

    assert broker.groups.delete_offsets("g", [T0]) == {T0: ErrorCode.NONE}

    assert broker.groups.store.find("g") is not None
    assert len(broker.restarted(consumer_groups=consumer_groups()).groups.store) == 1


def test_an_empty_group_goes_with_its_last_offset_when_that_expires(broker: GroupBroker) -> None:
    member = in_third_epoch(broker)
    commit(broker, "m1", None, 3)
    broker.groups.start()
    day_ms = 24 * 3_600_000
    broker.time.advance(1)
    assert broker.groups.store.find("g") is not None

    member.send(member_epoch=-1)
    broker.time.advance(8 * day_ms)

    assert broker.groups.store.find("g") is None
    assert len(broker.restarted(consumer_groups=consumer_groups()).groups.store) == 0


def test_it_is_listed_with_its_kind_and_state(broker: GroupBroker) -> None:
    MemberOf(broker, "m1").join()

    _, [listed] = broker.groups.list_groups(["stable"], ["consumer"])

    assert (listed.group_id, listed.group_type) == ("g", "consumer")
    assert (listed.group_state, listed.protocol_type) == ("Stable", "consumer")
    assert broker.groups.list_groups([], ["classic"])[1] == []
    assert broker.groups.list_groups(["empty"], [])[1] == []


def test_it_is_described_with_members_and_what_they_have_and_shall_have(
    broker: GroupBroker,
) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2", instance_id="i")
    first.join()
    second.join()

    found = broker.groups.consumer_groups.describe("g")

    group = found.group
    assert (group.error_code, group.group_state) == (0, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    members = {member.member_id: member for member in found.members()}
    assert members["m2"].instance_id == "i"
    assert members["m1"].member_type == 1
    assert members["m1"].subscribed_topic_names == ["t"]
    assert partitions(members["m1"].assignment) == [0, 1, 2, 3]
    targets = [partitions(member.target_assignment) for member in members.values()]
    assert sorted(chain.from_iterable(targets)) == [0, 1, 2, 3]
    assert {len(each) for each in targets} == {2}
    assert found.topic_names() == {"t"}
    assert broker.groups.consumer_groups.described_bytes("g") > 2 * len("m1")


def partitions(assignment: Any) -> list[int]:
    return sorted(index for each in assignment.topic_partitions for index in each.partitions)


def test_groups_of_another_kind_are_not_described(broker: GroupBroker) -> None:
    broker.stable_member("classic")

    for group_id, code, sentence in (
        ("classic", ErrorCode.GROUP_ID_NOT_FOUND, "Group classic is not a consumer group."),
        ("gone", ErrorCode.GROUP_ID_NOT_FOUND, "Group gone not found."),
        ("", ErrorCode.INVALID_GROUP_ID, None),
    ):
        with pytest.raises(KafkaError) as refused:
            broker.groups.consumer_groups.describe(group_id)
        assert (refused.value.code, refused.value.message) == (code, sentence)
    MemberOf(broker, "m1").join()
    error, described = broker.groups.describe_group("g")
    assert error is ErrorCode.GROUP_ID_NOT_FOUND
    assert (described.group_state, described.error_message) == (
        "Dead",
        "Group g is not a classic group.",
    )
