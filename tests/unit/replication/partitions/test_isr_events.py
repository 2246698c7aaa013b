"""What a leader says of the ISR it asks for."""

from __future__ import annotations

from kbroker.events.partition_events import IsrChange
from kbroker.model import TopicPartition
from kbroker.replication.partitions.isr_events import isr_change
from kbroker.replication.partitions.partition_state import FollowerState, PartitionState

STATE = PartitionState(
    local_id=1,
    leader=1,
    isr=(1, 2, 3),
    replicas=(1, 2, 3, 4),
    followers={2: FollowerState(log_end_offset=90), 3: FollowerState()},
)


def change(isr: tuple[int, ...]) -> IsrChange:
    return isr_change(
        TopicPartition("t", 0), STATE, isr, leader_end_offset=1_100, lag_time_max_ms=30_000
    )


def test_a_follower_that_lags_is_named_with_both_ends() -> None:
    event = change((1, 3))

    assert (event.name, event.cause) == ("isr_shrunk", "lagging")
    assert "broker 2 lags, its log ends at 90 and the leader's at 1,100" in event.sentence()


def test_a_follower_that_has_fetched_nothing_is_named_so() -> None:
    assert "broker 3 has fetched nothing since this leader began" in change((1, 2)).sentence()


def test_a_follower_that_has_caught_up_is_named() -> None:
    event = change((1, 2, 3, 4))

    assert (event.name, event.cause) == ("isr_expanded", "caught_up")
    assert event.sentence().endswith("to [1, 2, 3, 4]: broker 4 has caught up")
