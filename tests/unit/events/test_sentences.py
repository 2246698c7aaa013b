"""What events say to people and to programs, also of clients that want to be noticed."""

from __future__ import annotations

import json

import pytest

from kbroker.events.event import Event, cut
from kbroker.events.group_events import (
    CoordinatorMoved,
    GroupStable,
    MemberExpired,
    Rebalance,
    RebalanceCause,
    RemovalCause,
    Who,
)
from kbroker.events.partition_events import (
    AppendRefused,
    IsrCause,
    IsrChange,
    LeaderCause,
    LeaderChange,
)
from kbroker.events.producer_events import FenceCause, ProducerFenced
from kbroker.model import NO_LEADER, TopicPartition

T0 = TopicPartition("t", 0)
WHO = Who.of("m-1", None, "billing", "/10.0.0.7")
STATIC = Who.of("i-1", "i", "billing", "/10.0.0.7")


def rebalance(why: RebalanceCause, who: Who | None = WHO, **fields: object) -> Rebalance:
    values = {"generation_id": 3, "members": 2, **fields}
    return Rebalance(group="g", why=why, who=who, **values)  # type: ignore[arg-type]


def leader(why: LeaderCause, before: int = 1, now: int = 2) -> LeaderChange:
    return LeaderChange(
        topic_partition=T0, before=before, leader=now, leader_epoch=7, isr=(2, 3), why=why
    )


def isr(why: IsrCause, before: tuple[int, ...], now: tuple[int, ...], *what: str) -> IsrChange:
    return IsrChange(
        topic_partition=T0, before=before, isr=now, why=why, replicas=what, lag_time_max_ms=30_000
    )


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            rebalance(RebalanceCause.NEW_MEMBER, reason="rolled out"),
            "Group 'g' rebalances (generation 3): member 'm-1' (client 'billing' at 10.0.0.7) "
            "joined; its reason: 'rolled out'",
        ),
        (
            rebalance(RebalanceCause.MEMBER_LEFT, members=0),
            "Group 'g' has no members any more (generation 3): member 'm-1' (client 'billing' at "
            "10.0.0.7) left",
        ),
        (
            rebalance(RebalanceCause.STATIC_MEMBER_REPLACED, STATIC, detail="with other protocols"),
            "Group 'g' rebalances (generation 3): static member 'i' as 'i-1' (client 'billing' at "
            "10.0.0.7) came back as another process, with other protocols",
        ),
        (
            rebalance(RebalanceCause.NOT_STORED, None, detail="COORDINATOR_NOT_AVAILABLE"),
            "Group 'g' rebalances (generation 3): the assignments could not be stored: "
            "COORDINATOR_NOT_AVAILABLE",
        ),
        (
            MemberExpired(
                group="g", generation_id=3, why=RemovalCause.JOIN_TIMEOUT, who=WHO, detail="5,000"
            ),
            "Group 'g' removed member 'm-1' (client 'billing' at 10.0.0.7): it did not join again "
            "within 5,000 ms (rebalance timeout)",
        ),
        (
            GroupStable(group="g", generation_id=4, members=1, protocol="range", leader=WHO),
            "Group 'g' is stable (generation 4): 1 member, assigned by 'range' of member 'm-1' "
            "(client 'billing' at 10.0.0.7)",
        ),
        (
            CoordinatorMoved(group="g", generation_id=4, members=2, is_here=True),
            "Group 'g' is coordinated by this broker from now on, with 2 members (generation 4)",
        ),
        (
            CoordinatorMoved(group="g", generation_id=4, members=2, is_here=False),
            "Group 'g' is no longer coordinated by this broker: its members go to another one "
            "(generation 4)",
        ),
        (
            leader(LeaderCause.LEADER_LOST),
            "Broker 2 leads t-0 after broker 1 (epoch 7, ISR [2, 3]): broker 1 is gone, or cannot "
            "use its log",
        ),
        (
            leader(LeaderCause.NOBODY_LEFT, now=NO_LEADER),
            "Nobody leads t-0 after broker 1 (epoch 7, ISR [2, 3]): broker 1 is gone, or cannot "
            "use its log, and no other is in sync",
        ),
        (
            leader(LeaderCause.LEADER_BACK, before=NO_LEADER),
            "Broker 2 leads t-0 (epoch 7, ISR [2, 3]): it had no leader, and this broker is back",
        ),
        (
            isr(IsrCause.LAGGING, (1, 2), (1,), "broker 2 lags"),
            "The ISR of t-0 shrank from [1, 2] to [1]: broker 2 lags, and may lag for 30,000 ms "
            "(replica.lag.time.max.ms)",
        ),
        (
            isr(IsrCause.CAUGHT_UP, (1,), (1, 2), "broker 2 has caught up"),
            "The ISR of t-0 grew from [1] to [1, 2]: broker 2 has caught up",
        ),
        (
            isr(IsrCause.BROKER_STOPS, (1, 2), (1,), "broker 2 is"),
            "The ISR of t-0 shrank from [1, 2] to [1]: broker 2 is about to stop",
        ),
        (
            ProducerFenced(
                transactional_id="tx",
                producer_id=1000,
                epoch=4,
                why=FenceCause.TIMED_OUT,
                timeout_ms=60_000,
                aborted_partitions=2,
            ),
            "The producer of transactional id 'tx' is fenced (producer id 1000, epoch 4): its "
            "transaction was open for over 60,000 ms (transaction.timeout.ms); its transaction in "
            "2 partitions is aborted",
        ),
        (
            AppendRefused(topic_partition=T0, code="CORRUPT_MESSAGE", text="a line", client_id="c"),
            "a line",
        ),
    ],
)
def test_an_event_says_what_happened_and_why(event: Event, sentence: str) -> None:
    assert event.sentence() == sentence
    assert event.name
    assert event.cause
    assert event.group is None or event.topic_partition is None
    assert None not in event.fields().values()


@pytest.mark.parametrize("why", RebalanceCause)
def test_every_cause_of_a_rebalance_has_a_whole_sentence(why: RebalanceCause) -> None:
    sentence = rebalance(why, detail="12").sentence()

    assert "{" not in sentence
    assert sentence.startswith("Group 'g' rebalances (generation 3): ")


@pytest.mark.parametrize("why", RemovalCause)
def test_every_cause_of_a_removal_has_a_whole_sentence(why: RemovalCause) -> None:
    removed = MemberExpired(group="g", generation_id=1, why=why, who=WHO, detail="12")

    assert "{" not in removed.sentence()


def test_fields_name_member_group_and_partition() -> None:
    assert rebalance(RebalanceCause.NEW_MEMBER, STATIC, reason="r").fields() == {
        "group": "g",
        "generation": 3,
        "members": 2,
        "reason": "r",
        "member_id": "i-1",
        "group_instance_id": "i",
        "client_id": "billing",
        "client_host": "10.0.0.7",
    }
    assert leader(LeaderCause.PREFERRED).fields() == {
        "topic": "t",
        "partition": 0,
        "leader": 2,
        "leader_before": 1,
        "leader_epoch": 7,
        "isr": "2,3",
    }


HOSTILE = (
    "x\n2026-01-01 ERROR kbroker: all is lost\x1b[2J\x9b\u202e\u2028{who}\ud800" + "y" * 100_000
)


def test_names_of_clients_stay_in_their_quotes_and_are_cut() -> None:
    hostile = Who.of(HOSTILE, HOSTILE, HOSTILE, "/::1")
    event = Rebalance(
        group=HOSTILE,
        generation_id=1,
        members=1,
        why=RebalanceCause.NEW_MEMBER,
        who=hostile,
        reason=cut(HOSTILE),
    )

    sentence = event.sentence()

    assert sentence.isprintable()
    assert len(sentence) < 2_000
    assert sentence.count("\\n2026-01-01 ERROR") == 5
    assert len(json.dumps({**event.fields(), "group": ""})) < 3_000
