"""Groups that change their protocol while they are in use, and when they are empty (KIP-848)."""

from __future__ import annotations

import asyncio
import inspect
from itertools import groupby
from typing import Any

import pytest

from kbroker.coordinator.consumer_protocol import ConsumerProtocolAssignment
from kbroker.coordinator.runtime.versioned_record import version_of, versioned
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.record.record_batch import read_header
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult
from tests.fakes.brokers.classic_members import ClassicMemberOf, subscription
from tests.fakes.brokers.consumer_groups import (
    REBALANCE_MS,
    SESSION_MS,
    MemberOf,
    consumer_groups,
    refusal,
)
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker
from tests.fakes.clusters.replication import Replication

_REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(consumer_groups=consumer_groups(migration_policy="bidirectional"))


def found(broker: GroupBroker, group_id: str = "g") -> Any:
    return broker.groups.store.find(group_id)


def kind(broker: GroupBroker) -> str:
    return str(found(broker).kind)


def kinds_of_records(broker: GroupBroker) -> list[str]:
    """The kinds of all records of the last batch, with a minus for tombstones."""
    batch = broker.log().batches()[-1][1]
    return [f"{'-' if each.value is None else ''}{version_of(each.key)}" for each in batch]


def classic_member(broker: GroupBroker, **facts: Any) -> ClassicMemberOf:
    """The only member of a stable classic group, which has all partitions."""
    member = ClassicMemberOf(broker, **facts)
    member.join()
    member.sync({member.member_id: range(4)})
    assert member.has == [0, 1, 2, 3]
    return member


def mixed(broker: GroupBroker) -> tuple[ClassicMemberOf, MemberOf]:
    """A classic member and a new one in a consumer group, each with its half of the partitions."""
    old, new = classic_member(broker), MemberOf(broker, "new")
    assert new.join().error_code == 0
    for _ in range(3):
        old.catch_up()
        new.beat(new.told)
    assert (len(old.has), len(new.told)) == (2, 2)
    return old, new


# ---- from classic to consumer


def test_a_new_member_makes_a_consumer_group_of_a_classic_one(broker: GroupBroker) -> None:
    old = classic_member(broker)
    generation = old.generation

    new = MemberOf(broker, "new")
    answer = new.join()

    assert (answer.error_code, answer.member_epoch, new.told) == (0, generation + 1, [])
    assert kind(broker) == "consumer"
    group = found(broker).group
    assert list(group.members) == [old.member_id, "new"]
    assert group.members[old.member_id].epoch == generation
    assert kinds_of_records(broker) == [
        *("-2", "5", "3", "7", "6", "8"),  # the classic group, as a consumer group
        *("5", "3", "7", "7", "6", "8"),  # and its new member
    ]


def test_a_classic_member_gives_up_in_one_join_what_the_new_one_gets(broker: GroupBroker) -> None:
    old = classic_member(broker)
    new = MemberOf(broker, "new")
    new.join()

    assert old.beat() is _REBALANCE
    assert old.join().generation_id == old.generation == 1  # it has to give up first
    assert old.sync().error_code == 0
    kept = old.has
    assert len(kept) == 2
    assert new.beat([]).assignment is None

    assert old.beat() is _REBALANCE
    assert old.join().generation_id == 2
    old.sync()
    new.beat([])

    assert old.has == kept
    assert sorted(old.has + new.told) == [0, 1, 2, 3]
    assert old.beat() is ErrorCode.NONE
    assert found(broker).state == "Stable"


def test_whoever_waits_in_a_classic_group_joins_the_consumer_group(broker: GroupBroker) -> None:
    async def run() -> None:
        old = classic_member(broker)
        waiting = broker.join(version=3)  # for the first to join again
        assert not isinstance(waiting, JoinGroupResponse)

        assert MemberOf(broker, "new").join().error_code == 0

        assert (await waiting).error_code == _REBALANCE
        assert old.beat() is _REBALANCE

    broker.replicas.mode = Replication.IMMEDIATE
    asyncio.run(run())


def test_a_rebalance_that_was_broken_off_takes_nothing_from_who_still_reads(
    broker: GroupBroker,
) -> None:
    async def run() -> None:
        old = classic_member(broker)
        old.join()  # a cooperative one: it goes on reading all four
        waiting = broker.join(version=3)  # before the leader has assigned anything
        new = MemberOf(broker, "new")
        new.join()

        assert new.told == []
        await waiting
        old.catch_up()
        assert old.has == [0, 1, 2, 3] or set(old.has).isdisjoint(new.told)

    broker.replicas.mode = Replication.IMMEDIATE
    asyncio.run(run())


def test_what_a_member_says_it_has_counts_if_nobody_has_or_says_so_later(
    broker: GroupBroker,
) -> None:
    async def run() -> None:
        old = classic_member(broker)
        old.join()
        waiting = [
            broker.join(
                version=3, metadata=subscription(owned=owned, version=2, generation_id=generation)
            )
            for owned, generation in (([0, 1], old.generation), ([1, 2], old.generation + 1))
        ]

        MemberOf(broker, "new").join()

        for each in waiting:
            await each
        has = [
            sorted(each for partitions in member.assigned.values() for each in partitions)
            for member in found(broker).group.members.values()
            if member.is_classic
        ]
        assert sorted(has) == [[0], [1, 2], [3]]

    broker.replicas.mode = Replication.IMMEDIATE
    asyncio.run(run())


def test_a_claim_of_more_partitions_than_there_are_costs_and_counts_no_more_than_these(
    broker: GroupBroker,
) -> None:
    """A client may say so in a request that is not large; 200,000 took two minutes."""

    async def run() -> None:
        old = classic_member(broker)
        old.join()
        claim = subscription(owned=range(-1, 200_000), version=2, generation_id=old.generation + 1)
        waiting = broker.join(version=3, metadata=claim)

        MemberOf(broker, "new").join()

        await waiting
        groups = found(broker).group.members.values()
        has = [each.assigned.get(TOPIC_ID) or {} for each in groups]
        assert sorted(each for partitions in has for each in partitions) == [0, 1, 2, 3]

    broker.replicas.mode = Replication.IMMEDIATE
    asyncio.run(run())


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_policy_can_keep_a_classic_group(policy: str) -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(migration_policy=policy))
    old = classic_member(broker)

    answer = MemberOf(broker, "new").join()

    assert refusal(answer) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
    )
    assert old.beat() is ErrorCode.NONE


def test_a_group_of_another_kind_of_clients_stays_classic(broker: GroupBroker) -> None:
    broker.stable_member(protocol_type="connect")

    assert refusal(MemberOf(broker, "new").join()) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because the group does not use the"
        " consumer embedded protocol.",
    )


def test_what_a_custom_assignor_has_said_must_not_be_lost(broker: GroupBroker) -> None:
    joined = broker.join(version=3)
    assert isinstance(joined, JoinGroupResponse)
    said = versioned(ConsumerProtocolAssignment(user_data=b"more"), 1)
    broker.sync(joined.member_id, 1, assignments={joined.member_id: said})

    assert refusal(MemberOf(broker, "new").join()) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because an unsupported custom assignor"
        " is in use. Please refer to the documentation or switch to a default assignor before"
        " re-attempting the upgrade.",
    )


def test_bytes_that_are_no_subscription_or_assignment_stop_it(broker: GroupBroker) -> None:
    broker.stable_member()  # its assignment is none
    broker.stable_member("h", metadata=b"\0")
    sentence = (
        "Cannot upgrade classic group {} to consumer group because the embedded consumer protocol"
        " is malformed."
    )
    for group_id in ("g", "h"):
        answer = MemberOf(broker, "new", group_id=group_id).join()
        assert refusal(answer) == (ErrorCode.GROUP_ID_NOT_FOUND, sentence.format(group_id))


def test_a_classic_group_that_is_too_large_stays() -> None:
    services = consumer_groups(migration_policy="upgrade", max_size=1)
    broker = GroupBroker(consumer_groups=services)
    first, second = ClassicMemberOf(broker, instance_id="i"), ClassicMemberOf(broker)
    first.join()
    first.sync({first.member_id: range(4)})
    _waiting(broker, second)

    assert refusal(MemberOf(broker, "new").join()) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Cannot upgrade classic group g to consumer group because the group size exceeds the"
        " consumer group maximum size.",
    )


def _waiting(broker: GroupBroker, member: ClassicMemberOf) -> None:
    """A member joins, and its answer is not there yet."""

    async def run() -> None:
        assert not isinstance(member.join(), JoinGroupResponse)

    asyncio.run(run())


# ---- classic members in a consumer group


def test_a_classic_member_joins_a_consumer_group(broker: GroupBroker) -> None:
    new, old = MemberOf(broker, "new"), ClassicMemberOf(broker)
    new.join()

    asked = old.join(version=9)
    assert (asked.error_code, asked.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, -1)
    answer = old.join(version=9)

    assert (answer.error_code, answer.generation_id) == (0, 3)
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert (answer.leader, answer.members) == ("", [])
    old.sync()
    assert old.has == []
    new.beat(new.told)
    new.beat(new.told)
    assert old.beat() is _REBALANCE  # what it waits for is free
    old.catch_up()
    assert sorted(old.has + new.told) == [0, 1, 2, 3]


def test_with_the_policy_disabled_no_classic_member_joins() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups())
    MemberOf(broker, "new").join()

    assert ClassicMemberOf(broker).join().error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_classic_members_need_a_protocol_in_common(broker: GroupBroker) -> None:
    mixed(broker)
    other = ClassicMemberOf(broker)

    refused = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert other.join(protocols=("mine",)).error_code == refused
    assert other.join(protocol_type="connect").error_code == refused
    assert other.join(protocols=()).error_code == refused
    assert other.join(protocols=("mine", "range")).error_code == 0


def test_generations_and_names_of_classic_members_are_checked(broker: GroupBroker) -> None:
    old, new = mixed(broker)

    old.generation += 1
    assert old.beat() is ErrorCode.ILLEGAL_GENERATION
    assert old.sync().error_code == ErrorCode.ILLEGAL_GENERATION
    old.generation -= 1
    stranger = ClassicMemberOf(broker)
    stranger.member_id = "new"
    stranger.generation = new.epoch
    assert stranger.beat() is ErrorCode.UNKNOWN_MEMBER_ID  # it speaks the new protocol
    assert stranger.sync().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    stranger.member_id = "nobody"
    assert stranger.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave() == (ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID])
    asked: Any = broker.sync(old.member_id, old.generation, protocol_name="roundrobin")
    assert asked.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_that_is_asked_to_join_has_its_rebalance_time_out(
    broker: GroupBroker,
) -> None:
    old = classic_member(broker)
    new = MemberOf(broker, "new")
    new.join()
    assert old.beat() is _REBALANCE

    for _ in range(11):  # it is alive, and does not join
        broker.time.advance(5_000)
        new.beat([])
        assert old.beat() is _REBALANCE
    broker.time.advance(5_000)

    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    new.beat([])
    assert new.told == [0, 1, 2, 3]


def test_a_classic_member_that_has_joined_has_its_rebalance_time_out_to_sync(
    broker: GroupBroker,
) -> None:
    new, old = MemberOf(broker, "new"), ClassicMemberOf(broker)
    new.join()
    old.join(session_timeout_ms=300_000)

    broker.time.advance(40_000)
    new.beat()
    broker.time.advance(19_999)
    assert old.beat() is ErrorCode.NONE
    broker.time.advance(1)

    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_has_the_session_that_it_asked_for(broker: GroupBroker) -> None:
    old, new = mixed(broker)

    broker.time.advance(9_999)
    new.beat()
    assert old.beat() is ErrorCode.NONE
    broker.time.advance(10_000)

    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(found(broker).group.members) == ["new"]


def test_a_static_member_goes_from_one_protocol_to_the_other_and_keeps_its_partitions(
    broker: GroupBroker,
) -> None:
    old = classic_member(broker, instance_id="i")

    new = MemberOf(broker, "new", instance_id="i")
    answer = new.join()
    assert (answer.error_code, new.told) == (0, [0, 1, 2, 3])
    assert old.beat() is ErrorCode.FENCED_INSTANCE_ID

    again = ClassicMemberOf(broker, instance_id="i")
    joined = again.join()

    assert (joined.error_code, kind(broker)) == (0, "classic")  # nobody else speaks the new one
    assert again.sync().error_code == 0
    assert again.has == [0, 1, 2, 3]
    assert again.beat() is ErrorCode.NONE
    assert again.generation == found(broker).group.generation_id


def test_a_member_that_waits_for_partitions_as_the_group_becomes_classic_joins_again(
    broker: GroupBroker,
) -> None:
    """Or nobody reads what it was to get: it has fetched its assignment in this generation."""
    new, old = MemberOf(broker, "new", instance_id="i"), ClassicMemberOf(broker)
    new.join()
    old.join()
    old.sync()
    assert (new.told, old.has, old.beat()) == ([0, 1, 2, 3], [], ErrorCode.NONE)

    again = ClassicMemberOf(broker, instance_id="i")
    joined = again.join()

    assert (joined.error_code, kind(broker)) == (0, "classic")
    assert [old.beat(), again.beat()] == [_REBALANCE] * 2


def test_a_static_member_that_changes_a_group_amid_a_rebalance_gets_its_partitions(
    broker: GroupBroker,
) -> None:
    old = ClassicMemberOf(broker, instance_id="i")
    old.join()  # and its leader has assigned nothing yet

    new = MemberOf(broker, "new", instance_id="i")
    new.join()

    assert new.told == [0, 1, 2, 3]


# ---- from consumer to classic


def test_the_group_is_classic_once_the_last_new_member_has_left(broker: GroupBroker) -> None:
    old, new = mixed(broker)
    epoch = found(broker).group.epoch

    assert new.send(member_epoch=-1).error_code == 0

    assert kind(broker) == "classic"
    assert kinds_of_records(broker) == ["-8", "-8", "-7", "-7", "-6", "-5", "-5", "-4", "-3", "2"]
    group = found(broker).group
    assert (group.generation_id, group.leader_id) == (epoch, old.member_id)
    assert old.beat() is _REBALANCE
    assert old.join().generation_id == epoch + 1
    old.sync({old.member_id: range(4)})
    assert old.has == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_policy_can_keep_a_consumer_group(policy: str, broker: GroupBroker) -> None:
    mixed(broker)
    other = broker.restarted(consumer_groups=consumer_groups(migration_policy=policy))
    new = MemberOf(other, "new")

    new.send(member_epoch=-1)

    assert kind(other) == "consumer"


def test_a_group_too_large_for_a_classic_one_stays(broker: GroupBroker) -> None:
    mixed(broker)
    services = consumer_groups(migration_policy="bidirectional")
    other = broker.restarted(consumer_groups=services, group_max_size=0)

    MemberOf(other, "new").send(member_epoch=-1)

    assert kind(other) == "consumer"


def test_a_new_member_that_is_missed_leaves_a_classic_group(broker: GroupBroker) -> None:
    old, new = mixed(broker)

    for _ in range(9):
        broker.time.advance(SESSION_MS // 9)
        old.beat()

    assert kind(broker) == "classic"
    assert refusal(new.beat())[0] is ErrorCode.GROUP_ID_NOT_FOUND
    assert old.beat() is _REBALANCE


def test_members_that_do_not_rejoin_a_group_that_has_become_classic_expire(
    broker: GroupBroker,
) -> None:
    mixed(broker)[1].send(member_epoch=-1)

    broker.time.advance(REBALANCE_MS * 3 + 1)

    assert found(broker).state == "Empty"


# ---- empty groups


def test_an_empty_consumer_group_becomes_classic_by_use() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(migration_policy="disabled"))
    member = MemberOf(broker, "new")
    member.join()
    member.send(member_epoch=-1)
    old = ClassicMemberOf(broker)
    old.member_id = "somebody"
    assert old.join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert kind(broker) == "consumer"

    old.member_id = ""
    assert old.join(version=9).error_code == ErrorCode.MEMBER_ID_REQUIRED

    assert kind(broker) == "classic"
    assert kinds_of_records(broker) == ["-6", "-4", "-3", "2"]
    assert old.join(version=9).generation_id == 1


def test_an_empty_classic_group_becomes_a_consumer_group_whatever_the_policy() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(migration_policy="disabled"))
    old = classic_member(broker)
    old.leave()
    waiting = ClassicMemberOf(broker)
    waiting.join(version=9)  # has got an id, and has not joined with it

    assert MemberOf(broker, "new").join().error_code == 0

    assert kinds_of_records(broker)[0] == "-2"
    assert kind(broker) == "consumer"
    broker.time.advance(10_000)
    assert list(found(broker).group.members) == ["new"]


def test_an_id_given_out_by_an_empty_classic_group_is_good_in_its_successor(
    broker: GroupBroker,
) -> None:
    waiting = ClassicMemberOf(broker)
    waiting.join(version=9)
    MemberOf(broker, "new").join()

    assert waiting.join(version=9).error_code == 0
    assert waiting.member_id in found(broker).group.members


# ---- what the log refuses


def test_a_refused_change_leaves_the_classic_group_as_it_was(broker: GroupBroker) -> None:
    old = classic_member(broker)
    records = len(broker.log().batches())
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS

    answer = MemberOf(broker, "new").join()

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.replicas.error = ErrorCode.NONE
    assert (kind(broker), len(broker.log().batches())) == ("classic", records)
    assert old.beat() is ErrorCode.NONE
    broker.time.advance(9_999)
    assert old.beat() is ErrorCode.NONE
    broker.time.advance(10_000)
    assert old.beat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_change_leaves_the_consumer_group_as_it_was(broker: GroupBroker) -> None:
    old, new = mixed(broker)
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS

    answer = new.send(member_epoch=-1)

    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.replicas.error = ErrorCode.NONE
    assert kind(broker) == "consumer"
    assert old.beat() is ErrorCode.NONE
    assert new.beat(new.told).error_code == 0


def test_several_changes_on_top_of_a_refused_write_never_were(broker: GroupBroker) -> None:
    async def run() -> None:
        old, new = mixed(broker)
        waiting: list[asyncio.Future[list[PartitionProduceResult]]] = []

        def append_later(entries: Any, *_: Any) -> AppendOutcome:
            waiting.append(asyncio.get_running_loop().create_future())
            return AppendOutcome([], waiting[-1])

        append, broker.replicas.append_records = broker.replicas.append_records, append_later
        other, later = MemberOf(broker, "other"), MemberOf(broker, "later")
        answers = [
            asyncio.ensure_future(_sent(other)),
            asyncio.ensure_future(_sent(other, member_epoch=-1)),
            asyncio.ensure_future(_sent(new, member_epoch=-1)),
        ]
        await asyncio.sleep(0)
        assert kind(broker) == "classic"
        rejoining = asyncio.ensure_future(_sent(later))
        await asyncio.sleep(0)
        assert kind(broker) == "consumer"
        broker.replicas.append_records = append

        refused = ErrorCode.NOT_ENOUGH_REPLICAS
        waiting[0].set_result([PartitionProduceResult(broker_partition(broker), refused)])
        codes = [(await each).error_code for each in (*answers, rejoining)]

        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 4
        assert len(waiting) == 1
        assert list(found(broker).group.members) == [old.member_id, "new"]
        assert old.beat() is ErrorCode.NONE

    broker.replicas.mode = Replication.IMMEDIATE
    asyncio.run(run())


def broker_partition(broker: GroupBroker) -> TopicPartition:
    return next(iter(broker.replicas.logs))


async def _sent(member: MemberOf, member_epoch: int = 0) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member.member_id,
        member_epoch=member_epoch,
        rebalance_timeout_ms=REBALANCE_MS,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    outcome = member.broker.groups.consumer_groups.heartbeat(
        request, api_version=1, client_id="c", client_host="/127.0.0.1"
    )
    return await outcome if inspect.isawaitable(outcome) else outcome


# ---- loading


def test_every_end_of_the_log_gives_the_group_that_was_there_then(broker: GroupBroker) -> None:
    old, new = mixed(broker)
    new.send(member_epoch=-1)
    old.join()
    old.sync({old.member_id: range(4)})
    MemberOf(broker, "later").join()
    whole = bytes(broker.log().data)

    kinds = []
    for end in _ends(broker):
        broker.log().data[:] = whole[:end]
        groups = list(broker.restarted(consumer_groups=consumer_groups()).groups.store)
        assert len(groups) == 1
        kinds.append(groups[0].kind)

    assert [kind for kind, _ in groupby(kinds)] == ["classic", "consumer", "classic", "consumer"]


def _ends(broker: GroupBroker) -> list[int]:
    ends, position, data = [], 0, broker.log().data
    while position < len(data):
        position += read_header(data, position).size_bytes
        ends.append(position)
    return ends


def test_a_loaded_classic_member_goes_on_in_its_epoch(broker: GroupBroker) -> None:
    old, new = mixed(broker)

    other = broker.restarted(consumer_groups=consumer_groups(migration_policy="bidirectional"))
    old.broker = new.broker = other

    assert old.beat() is ErrorCode.NONE
    assert new.beat(new.told).error_code == 0
