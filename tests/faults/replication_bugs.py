"""Known mistakes of replicated logs, each a context manager that makes brokers commit this one.

The simulation of replication must find every one of them; those of controllers are in
`cluster_bugs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import PropertyMock, patch

from kbroker.apis import fetch_versions
from kbroker.controller.event_handlers import cluster_changes
from kbroker.controller.state_machines import partition_state_machine
from kbroker.coordinator.runtime.batch_append import BatchAppend
from kbroker.errors import ErrorCode
from kbroker.log.partition import log_producers
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_offsets import LogOffsets
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.replication.fetchers import replica_fetcher
from kbroker.replication.fetchers.replica_fetcher import ReplicaFetcher
from kbroker.replication.partitions import partition as partition_module
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.partition_state import PartitionState
from kbroker.replication.waiting.delayed_produce import DelayedProduce
from tests.faults.cluster_bugs import controller_epoch_ignored, leader_epoch_not_raised

Mistake = Callable[[], AbstractContextManager[Any]]


# ---- truncation


def cut_to_the_high_watermark() -> AbstractContextManager[Any]:
    """A follower cuts its log where its high watermark is, as before KIP-101."""
    original = ReplicaFetcher.add

    def add(fetcher: ReplicaFetcher, partition: Partition) -> None:
        partition.log.truncate_to(partition.high_watermark)
        original(fetcher, partition)

    return patch.object(ReplicaFetcher, "add", add)


def epochs_not_cut() -> AbstractContextManager[Any]:
    """The leader epochs stay where a log is cut."""
    return patch.object(LeaderEpochCache, "truncate_from_end", lambda *_: None)


def divergence_ignored() -> AbstractContextManager[Any]:
    """A leader does not tell followers that their logs part from its own."""
    return patch.object(Partition, "diverging_epoch", lambda *_: None)


def divergence_not_followed() -> AbstractContextManager[Any]:
    """A follower goes on where it is although its log parts from the leader's."""
    return patch.object(ReplicaFetcher, "_part", lambda fetcher, state, _: fetcher._delay(state))


def cut_one_record_too_late() -> AbstractContextManager[Any]:
    """A follower keeps the first record that its leader has not."""
    original = replica_fetcher.truncation_for

    def truncation_for(*args: Any) -> Any:
        found = original(*args)
        return found._replace(offset=min(found.offset + 1, args[2]))

    return patch.object(replica_fetcher, "truncation_for", truncation_for)


def producers_remembered_after_a_cut() -> AbstractContextManager[Any]:
    """A log remembers batches of producers although they were cut off."""
    return patch.object(log_producers, "rewind", lambda *_, **named: named["end_offset"])


def high_watermark_kept_after_a_cut() -> AbstractContextManager[Any]:
    """The high watermark stays where a log is cut below it."""
    original = LogOffsets.end_at

    def end_at(offsets: Any, end_offset: int) -> None:
        before = offsets.high_watermark
        original(offsets, end_offset)
        offsets.high_watermark = before

    return patch.object(LogOffsets, "end_at", end_at)


# ---- leaders and their fences


def still_leading_after_the_order_to_follow() -> AbstractContextManager[Any]:
    """A leader that is to follow another goes on leading."""
    original = Partition.make_follower

    def make_follower(partition: Partition, *args: Any) -> bool:
        return False if partition.is_leader else original(partition, *args)

    return patch.object(Partition, "make_follower", make_follower)


def followers_append_for_producers() -> AbstractContextManager[Any]:
    """Who does not lead appends what producers send."""

    def append(partition: Partition, records: Any, acks: int, now_ms: int, *args: Any) -> Any:
        epoch = partition.state.leader_epoch
        info = partition.log.append_as_leader(records, epoch, now_ms, origin=args[0])
        partition.maybe_increment_high_watermark(now_ms)
        return info

    return patch.object(Partition, "append_records_to_leader", append)


def leader_epochs_not_compared() -> AbstractContextManager[Any]:
    """Requests are served whatever leader epoch they name."""
    return patch.object(PartitionState, "check_leader_epoch", lambda *_: ErrorCode.NONE)


def unclean_leaders() -> AbstractContextManager[Any]:
    """Whoever lives may lead, in sync or not."""
    original = partition_state_machine.elect_offline

    def elect(assignment: Any, isr: Any, live: Any, _allowed: bool) -> Any:
        return original(assignment, isr, live, True)

    return patch.object(partition_state_machine, "elect_offline", elect)


@contextmanager
def unseen_returns_trusted() -> Iterator[None]:
    """A new controller takes brokers that came back before it began for those that were there."""
    with (
        patch.object(cluster_changes, "replicas_that_returned", lambda _: ()),
        patch.object(cluster_changes, "leaders_that_returned", lambda _: ()),
    ):
        yield


# ---- in-sync replicas and the high watermark


def acknowledged_before_the_append() -> AbstractContextManager[Any]:
    """A leader takes what it sends to a follower for stored there."""
    original = Partition.follower_fetched

    def fetched(
        partition: Partition, replica_id: int, offset: int, *args: Any, **named: Any
    ) -> bool:
        sent = partition.log_end_offset if offset <= partition.log_end_offset else offset
        return original(partition, replica_id, sent, *args, **named)

    return patch.object(Partition, "follower_fetched", fetched)


def isr_used_before_it_is_stored() -> AbstractContextManager[Any]:
    """A leader counts on the ISR that it has asked for."""
    maximal = PropertyMock()
    maximal.__get__ = lambda _, state, __=None: frozenset(state.pending_isr or state.isr)
    return patch.object(PartitionState, "maximal_isr", maximal)


def joined_before_caught_up() -> AbstractContextManager[Any]:
    """A follower is in sync from its first fetch on."""

    def expanded(state: PartitionState, replica_id: int, _high_watermark: int) -> Any:
        can_ask = state.is_leader and state.pending_isr is None
        is_new = replica_id in state.followers and replica_id not in state.isr
        return (*state.isr, replica_id) if can_ask and is_new else None

    return patch.object(PartitionState, "expanded_isr", expanded)


def joined_before_the_leaders_epoch() -> AbstractContextManager[Any]:
    """A follower is in sync once it has the high watermark, wherever the leader's epoch begins."""
    original = PartitionState.expanded_isr

    def expanded(state: PartitionState, replica_id: int, high_watermark: int) -> Any:
        return original(replace(state, leader_epoch_start_offset=-1), replica_id, high_watermark)

    return patch.object(PartitionState, "expanded_isr", expanded)


def high_watermark_of_the_leader_alone() -> AbstractContextManager[Any]:
    """All that the leader has is committed."""

    def reached(_state: PartitionState, current: int, end_offset: int, **_: Any) -> int:
        return max(current, end_offset)

    return patch.object(partition_module, "next_high_watermark", reached)


def one_in_sync_not_waited_for() -> AbstractContextManager[Any]:
    """The high watermark does not wait for the last replica in sync."""
    original = partition_module.next_high_watermark

    def reached(state: PartitionState, current: int, end_offset: int, **named: Any) -> int:
        followers = dict(list(state.followers.items())[:-1])
        return original(replace(state, followers=followers), current, end_offset, **named)

    return patch.object(partition_module, "next_high_watermark", reached)


def followers_commit_all_they_have() -> AbstractContextManager[Any]:
    """A follower takes the end of its log for the high watermark."""
    original = Partition.follow_leader

    def follow(partition: Partition, _high_watermark: int, log_start_offset: int) -> bool:
        return original(partition, partition.log_end_offset, log_start_offset)

    return patch.object(Partition, "follow_leader", follow)


def min_isr_ignored() -> AbstractContextManager[Any]:
    """acks=all is answered however few replicas are in sync."""
    return patch.object(PartitionState, "is_under_min_isr", lambda *_: False)


# ---- what clients are told


def read_beyond_the_high_watermark() -> AbstractContextManager[Any]:
    """Consumers read to the end of the log."""
    return patch.dict(fetch_versions.ISOLATION, {0: FetchIsolation.LOG_END})


def timeouts_answered_as_success() -> AbstractContextManager[Any]:
    """acks=all is answered as done when its time is over."""

    def on_expiration(operation: DelayedProduce[Any]) -> None:
        operation._pending.clear()
        operation.on_complete()

    return patch.object(DelayedProduce, "on_expiration", on_expiration)


def commits_answered_before_replication() -> AbstractContextManager[Any]:
    """A group's commit is answered when the leader has it."""
    original = BatchAppend.append

    def append(self: BatchAppend, partition: Any, rows: Any, options: Any, _acks: int) -> Any:
        return original(self, partition, rows, options, 1)

    return patch.object(BatchAppend, "append", append)


def producers_forgotten() -> AbstractContextManager[Any]:
    """A new leader remembers nothing of producers."""
    original = Log.begin_leader_epoch

    def begin(log: Log, leader_epoch: int) -> None:
        log.producer_state.clear(log.log_end_offset)
        original(log, leader_epoch)

    return patch.object(Log, "begin_leader_epoch", begin)


@contextmanager
def _both(*mistakes: AbstractContextManager[Any]) -> Iterator[None]:
    for mistake in mistakes:
        mistake.__enter__()
    try:
        yield
    finally:
        for mistake in mistakes:
            mistake.__exit__(None, None, None)


# A seed, and the steps of its history, with which each is found soon, where that is not the first.
FOUND_SOON: dict[Mistake, tuple[int, int]] = {
    cut_to_the_high_watermark: (56, 12),
    epochs_not_cut: (5, 7),
    divergence_ignored: (46, 4),
    divergence_not_followed: (15, 7),
    cut_one_record_too_late: (19, 7),
    producers_remembered_after_a_cut: (88, 12),
    high_watermark_kept_after_a_cut: (197, 60),
    still_leading_after_the_order_to_follow: (30, 4),
    followers_append_for_producers: (59, 4),
    leader_epochs_not_compared: (113, 60),
    unclean_leaders: (50, 12),
    unseen_returns_trusted: (177, 60),
    acknowledged_before_the_append: (16, 4),
    isr_used_before_it_is_stored: (95, 4),
    joined_before_caught_up: (278, 12),
    joined_before_the_leaders_epoch: (803, 60),
    high_watermark_of_the_leader_alone: (3, 4),
    one_in_sync_not_waited_for: (3, 4),
    followers_commit_all_they_have: (53, 12),
    min_isr_ignored: (13, 12),
    timeouts_answered_as_success: (13, 4),
    commits_answered_before_replication: (7, 12),
    producers_forgotten: (9, 4),
    controller_epoch_ignored: (58, 12),
}
PLANTED: tuple[Mistake, ...] = (
    cut_to_the_high_watermark,
    epochs_not_cut,
    divergence_ignored,
    divergence_not_followed,
    cut_one_record_too_late,
    producers_remembered_after_a_cut,
    high_watermark_kept_after_a_cut,
    still_leading_after_the_order_to_follow,
    followers_append_for_producers,
    leader_epochs_not_compared,
    unclean_leaders,
    unseen_returns_trusted,
    acknowledged_before_the_append,
    isr_used_before_it_is_stored,
    joined_before_caught_up,
    joined_before_the_leaders_epoch,
    high_watermark_of_the_leader_alone,
    one_in_sync_not_waited_for,
    followers_commit_all_they_have,
    min_isr_ignored,
    read_beyond_the_high_watermark,
    timeouts_answered_as_success,
    commits_answered_before_replication,
    producers_forgotten,
    controller_epoch_ignored,
    leader_epoch_not_raised,
)
