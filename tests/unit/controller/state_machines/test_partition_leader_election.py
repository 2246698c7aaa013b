"""Leaders come from the in-sync replicas, in the order of the assignment."""

from __future__ import annotations

from kbroker.controller.state_machines.partition_leader_election import (
    Elected,
    elect_controlled_shutdown,
    elect_offline,
    elect_preferred,
    elect_reassigned,
)


def test_offline_takes_the_first_living_in_sync_replica_and_drops_the_dead_from_the_isr() -> None:
    assert elect_offline([1, 2, 3], [3, 2, 1], [2, 3], False) == Elected(2, (3, 2))


def test_offline_goes_outside_the_isr_only_when_allowed() -> None:
    assert elect_offline([1, 2], [1], [2], False) is None
    assert elect_offline([1, 2], [1], [2], True) == Elected(2, (2,), unclean=True)
    assert elect_offline([1, 2], [1], [], True) is None


def test_preferred_is_the_first_of_the_assignment_or_nobody() -> None:
    assert elect_preferred([1, 2], [2, 1], [1, 2]) == Elected(1, (2, 1))
    assert elect_preferred([1, 2], [2], [1, 2]) is None
    assert elect_preferred([1, 2], [1, 2], [2]) is None


def test_reassigned_takes_the_first_living_in_sync_replica_of_the_target() -> None:
    assert elect_reassigned([4, 5], [1, 5], [1, 4, 5]) == Elected(5, (1, 5))
    assert elect_reassigned([4, 5], [1], [1, 4, 5]) is None


def test_controlled_shutdown_moves_away_and_shrinks_the_isr() -> None:
    assert elect_controlled_shutdown([1, 2, 3], [1, 2, 3], [1, 2, 3], [1]) == Elected(2, (2, 3))
    assert elect_controlled_shutdown([1, 2], [1], [1, 2], [1]) is None
