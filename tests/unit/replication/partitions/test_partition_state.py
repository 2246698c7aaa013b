from __future__ import annotations

from dataclasses import replace

import pytest

from kbroker.errors import ErrorCode
from kbroker.model import LeaderAndIsr, ReplicaAssignment
from kbroker.replication.partitions.high_watermark import next_high_watermark
from kbroker.replication.partitions.partition_state import FollowerState, PartitionState

LAG_MS = 30_000


def leader(
    isr=(0, 1), replicas=(0, 1), *, epoch=3, end_offset=10, now_ms=0, before=None
) -> PartitionState:
    state = before or PartitionState(local_id=0)
    change = LeaderAndIsr(leader=0, leader_epoch=epoch, isr=isr)
    return state.as_leader(change, ReplicaAssignment(replicas=replicas), 1, end_offset, now_ms)


def high_watermark(state, current, end, *, now_ms=0, min_isr=1) -> int:
    return next_high_watermark(
        state, current, end, min_insync_replicas=min_isr, now_ms=now_ms, lag_time_max_ms=LAG_MS
    )


def test_a_single_replica_commits_what_it_holds():
    assert high_watermark(leader((0,), (0,)), 5, 12) == 12


def test_the_slowest_in_sync_replica_bounds_the_high_watermark():
    state = leader().follower_fetched(1, 7, 0, 0, 12)

    assert high_watermark(state, 5, 12) == 7


def test_a_follower_that_never_fetched_holds_the_high_watermark():
    assert high_watermark(leader(), 5, 12) == 5


def test_a_follower_that_comes_back_with_less_has_no_more_than_that():
    """Its machine lost power and had not written the rest, and nobody else was elected."""
    state = leader((0,), (0, 1)).follower_fetched(1, 12, 0, 0, 12)
    state = state.follower_fetched(1, 3, 0, 1, 12)

    assert state.expanded_isr(1, 8) is None
    assert high_watermark(replace(state, isr=(0, 1)), 8, 12, min_isr=2) == 8


def test_a_replica_that_a_move_takes_away_counts_until_it_has_left_the_isr():
    """It could lead next, where the controller ends between the election and the shorter ISR."""
    state = leader((2, 0, 1), (0, 1)).follower_fetched(1, 12, 0, 0, 12)
    assert high_watermark(state, 5, 12) == 5

    lagging = state.shrunk_isr(leader_end_offset=12, now_ms=LAG_MS + 1, lag_time_max_ms=LAG_MS)
    assert lagging == (0, 1)
    state = state.proposing(lagging).settled(lagging, 1)

    assert high_watermark(state, 5, 12) == 12
    assert list(state.followers) == [1]


def test_a_replica_that_was_taken_away_does_not_join_the_isr_again():
    state = leader((2, 0), (0, 1)).follower_fetched(2, 12, 0, 0, 12)
    gone = replace(state, isr=(0,))

    assert gone.expanded_isr(2, 5) is None


def test_a_lagging_replica_outside_the_isr_does_not_count():
    state = leader((0,), (0, 1)).follower_fetched(1, 2, 0, 0, 12)

    assert high_watermark(state, 5, 12, now_ms=LAG_MS + 1) == 12


def test_a_caught_up_replica_outside_the_isr_counts():
    state = leader((0,), (0, 1)).follower_fetched(1, 10, 0, 50_000, 10)

    assert high_watermark(state, 5, 12, now_ms=50_001) == 10


def test_replicas_of_a_pending_isr_count():
    state = leader((0,), (0, 1)).follower_fetched(1, 8, 0, 0, 12).proposing((0, 1))

    assert high_watermark(state, 5, 12, now_ms=LAG_MS + 1) == 8


def test_below_min_insync_replicas_the_high_watermark_stands_still():
    assert high_watermark(leader((0,), (0, 1)), 5, 12, now_ms=LAG_MS + 1, min_isr=2) == 5


def test_min_insync_replicas_never_asks_for_more_than_there_are():
    assert not leader((0,), (0,)).is_under_min_isr(2)
    assert leader((0,), (0, 1)).is_under_min_isr(2)


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_requests_are_fenced_by_leader_epoch(requested, expected):
    assert leader().check_access(requested, leader_only=True) is expected


def test_a_follower_refuses_what_only_the_leader_may_answer():
    change = LeaderAndIsr(leader=1, leader_epoch=3, isr=(1,))
    state = PartitionState(local_id=0).as_follower(change, ReplicaAssignment(replicas=(0, 1)), 1)

    assert state.check_access(3, leader_only=True) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert state.check_access(3, leader_only=False) is ErrorCode.NONE
    assert state.check_access(2, leader_only=True) is ErrorCode.FENCED_LEADER_EPOCH


def test_a_new_epoch_forgets_what_followers_reported():
    old = leader().follower_fetched(1, 7, 0, 0, 12)

    assert leader(before=old, epoch=4).followers[1].log_end_offset == -1
    assert leader(before=old, epoch=3).followers[1].log_end_offset == 7


def test_a_repeated_message_keeps_the_start_of_the_epoch():
    again = leader(before=leader(end_offset=10), end_offset=20)

    assert again.leader_epoch_start_offset == 10


def test_a_lagging_follower_leaves_the_isr():
    state = leader(now_ms=0).follower_fetched(1, 7, 0, 0, 12)

    assert state.shrunk_isr(leader_end_offset=12, now_ms=LAG_MS, lag_time_max_ms=LAG_MS) is None
    assert state.shrunk_isr(leader_end_offset=12, now_ms=LAG_MS + 1, lag_time_max_ms=LAG_MS) == (0,)


def test_a_follower_at_the_log_end_stays_however_long_ago_it_fetched():
    state = leader().follower_fetched(1, 12, 0, 0, 12)

    assert state.shrunk_isr(leader_end_offset=12, now_ms=10**9, lag_time_max_ms=LAG_MS) is None


def test_a_follower_joins_the_isr_at_the_high_watermark():
    state = leader((0,), (0, 1), end_offset=4).follower_fetched(1, 7, 0, 0, 12)

    assert state.expanded_isr(1, 8) is None
    assert state.expanded_isr(1, 7) == (0, 1)


def test_a_follower_joins_the_isr_only_past_the_start_of_the_epoch():
    state = leader((0,), (0, 1), end_offset=10).follower_fetched(1, 9, 0, 0, 12)

    assert state.expanded_isr(1, 5) is None


def test_one_isr_change_at_a_time():
    state = leader((0,), (0, 1, 2)).follower_fetched(1, 12, 0, 0, 12).proposing((0, 1))

    assert state.follower_fetched(2, 12, 0, 0, 12).expanded_isr(2, 5) is None
    with pytest.raises(AssertionError):
        state.proposing((0, 2))


def test_a_settled_isr_ends_the_change():
    state = leader((0,), (0, 1)).proposing((0, 1)).settled((0, 1), 8)

    assert (state.isr, state.pending_isr, state.partition_epoch) == ((0, 1), None, 8)


def test_reading_to_the_previous_end_counts_as_caught_up_then():
    state = FollowerState()
    state.fetched(5, 0, 100, 10)
    state.fetched(10, 0, 200, 20)

    assert state.last_caught_up_time_ms == 100


def test_a_follower_that_had_all_until_now_was_caught_up_at_its_last_fetch():
    state = FollowerState()
    state.fetched(10, 0, 100, 10)

    state.had_all(10, 500)
    state.fetched(10, 0, 900, 12)  # two records more came since

    assert state.last_caught_up_time_ms == 500


def test_another_leadership_does_not_take_over_how_far_a_follower_was():
    state = FollowerState()

    state.had_all(10, 500)

    assert (state.log_end_offset, state.last_caught_up_time_ms) == (-1, 0)


def test_a_stopped_replica_does_not_lead():
    assert not leader().stopped().is_leader


def test_a_fetch_is_noted_of_one_follower_and_forgotten_in_the_next_epoch():
    before = leader((0,), (0, 1, 2)).follower_fetched(1, 7, 0, 5, 10)

    after = leader((0,), (0, 1, 2), epoch=4, before=before)

    assert [before.followers[broker].log_end_offset for broker in (1, 2)] == [7, -1]
    assert [after.followers[broker].log_end_offset for broker in (1, 2)] == [-1, -1]
