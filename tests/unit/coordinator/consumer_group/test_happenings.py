"""What is reported of consumer groups (KIP-848), and why it happened."""

from __future__ import annotations

import pytest

from kbroker.errors import ErrorCode
from tests.fakes.brokers.classic_members import ClassicMemberOf
from tests.fakes.brokers.consumer_groups import MemberOf, consumer_groups, topic
from tests.fakes.brokers.group_broker import TOPIC_ID, GroupBroker


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(consumer_groups=consumer_groups())


def reported(broker: GroupBroker) -> list[str]:
    """The sentences that were not there before."""
    sentences = [noted.event.sentence() for noted in broker.events.of_group("g")]
    seen = getattr(broker, "seen", 0)
    broker.seen = len(sentences)  # type: ignore[attr-defined]
    return [each.removeprefix("Group 'g' ") for each in sentences[seen:]]


M1, M2 = "member 'm1' (client 'c' at 127.0.0.1)", "member 'm2' (client 'c' at 127.0.0.1)"
AWAY = "static member 'i' as 's' (client 'c' at 127.0.0.1)"
BACK = "static member 'i' as 's2' (client 'c' at 127.0.0.1)"


def test_epochs_have_a_cause_a_target_and_an_end(broker: GroupBroker) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    assert reported(broker) == [
        f"begins epoch 2 with 1 member: {M1} joined",
        "has a target for epoch 2: 1 member, assigned by 'uniform'",
        "is stable (epoch 2): 1 member at the target",
    ]
    second.join()
    assert reported(broker) == [
        f"begins epoch 3 with 2 members: {M2} joined",
        "has a target for epoch 3: 2 members, assigned by 'uniform'",
    ]
    first.beat()
    first.beat(first.told)
    assert reported(broker) == []
    second.beat()
    assert reported(broker) == ["is stable (epoch 3): 2 members at the target"]

    first.send(subscribed_topic_names=["t", "u"])
    assert reported(broker)[:1] == [
        f"begins epoch 4 with 2 members: {M1} subscribes to other topics"
    ]
    second.beat()
    broker.metadata.update(topic("t", TOPIC_ID, 5))
    reported(broker)
    first.beat()
    assert reported(broker)[:1] == [
        "begins epoch 5 with 2 members: topics that it reads have changed, or come and gone"
    ]
    second.send(member_epoch=-1)
    assert reported(broker)[:1] == [f"begins epoch 6 with 1 member: {M2} left"]
    first.send(member_epoch=-1)
    assert reported(broker) == [f"has no members any more (epoch 7): {M1} left"]


def test_who_is_late_is_named_with_what_it_was_late_with(broker: GroupBroker) -> None:
    first, second = MemberOf(broker, "m1"), MemberOf(broker, "m2")
    first.join()
    second.join()
    first.beat()
    reported(broker)
    for _ in range(3):
        broker.time.advance(10_000)
        first.beat()
        second.beat()
    late = "did not give up its partitions within 20000 ms (its rebalance timeout)"
    assert reported(broker) == [
        f"removed {M1}: it {late}",
        f"begins epoch 4 with 1 member: {M1} {late}",
        "has a target for epoch 4: 1 member, assigned by 'uniform'",
        "is stable (epoch 4): 1 member at the target",
    ]
    broker.time.advance(50_000)
    assert reported(broker) == [
        f"removed {M2}: it sent no heartbeat for 45000 ms (its session timeout)",
        f"has no members any more (epoch 5): {M2} sent no heartbeat for 45000 ms"
        " (its session timeout)",
    ]


def test_a_static_member_leaves_for_a_while_and_comes_back(broker: GroupBroker) -> None:
    static = MemberOf(broker, "s", instance_id="i")
    static.join()
    reported(broker)

    static.send(member_epoch=-2)
    MemberOf(broker, "s2", instance_id="i").join()

    assert reported(broker) == [
        f"(epoch 2): {AWAY} left for a while and keeps its partitions",
        f"(epoch 2): {BACK} came back and takes over from 's'",
    ]


def test_nothing_is_reported_that_the_log_refuses(broker: GroupBroker) -> None:
    broker.replicas.error = ErrorCode.NOT_ENOUGH_REPLICAS
    MemberOf(broker, "m1").join()

    assert reported(broker) == []


def test_a_stable_group_that_is_loaded_is_not_news(broker: GroupBroker) -> None:
    MemberOf(broker, "m1").join()

    again = broker.restarted(consumer_groups=consumer_groups())

    assert reported(again) == ["is coordinated by this broker from now on, with 1 member (epoch 2)"]
    MemberOf(again, "m2").join()
    assert reported(again) == [
        f"begins epoch 3 with 2 members: {M2} joined",
        "has a target for epoch 3: 2 members, assigned by 'uniform'",
    ]


def test_a_change_of_the_protocol_is_reported_with_what_came_of_it() -> None:
    broker = GroupBroker(consumer_groups=consumer_groups(migration_policy="bidirectional"))
    old = ClassicMemberOf(broker)
    old.join()
    old.sync({old.member_id: range(4)})
    reported(broker)
    new = MemberOf(broker, "m1")

    new.join()

    assert sorted(reported(broker)) == [
        f"begins epoch 2 with 2 members: {M1} joined",
        "changes to the consumer protocol, with 2 members: its coordinator assigns from now on",
        "has a target for epoch 2: 2 members, assigned by 'uniform'",
    ]
    new.send(member_epoch=-1)
    assert (
        "changes to the classic protocol, with 1 member: one of its members assigns from now on"
        in (reported(broker))
    )
