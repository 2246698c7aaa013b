"""A partition on the move: origin, target and the way between them, as KIP-455 lays it down."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.controller.state_machines.reassignment_phases import (
    is_being_reassigned,
    origin_replicas,
    reassign_to,
    reassigned,
    refused_target,
    target_replicas,
)
from kbroker.model import ReplicaAssignment

BROKERS = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True).map(tuple)
SETTLED = BROKERS.map(lambda replicas: ReplicaAssignment(replicas=replicas))


def test_target_comes_first_and_what_leaves_last() -> None:
    moving = reassign_to(ReplicaAssignment(replicas=(1, 2, 3)), (3, 4))
    assert moving == ReplicaAssignment(
        replicas=(3, 4, 1, 2), adding_replicas=(4,), removing_replicas=(1, 2)
    )
    assert origin_replicas(moving) == (3, 1, 2)
    assert target_replicas(moving) == (3, 4)


@given(SETTLED, BROKERS)
def test_target_is_what_was_asked_for(settled: ReplicaAssignment, target: tuple[int, ...]) -> None:
    moving = reassign_to(settled, target)
    assert target_replicas(moving) == target
    assert set(origin_replicas(moving)) == set(settled.replicas)
    assert is_being_reassigned(moving) == (set(target) != set(settled.replicas))


@given(SETTLED, BROKERS, BROKERS)
def test_turning_elsewhere_forgets_the_first_target(
    settled: ReplicaAssignment, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    turned = reassign_to(reassign_to(settled, first), second)
    assert set(turned.replicas) == set(settled.replicas) | set(second)
    assert target_replicas(turned) == second


@given(SETTLED, BROKERS)
def test_calling_off_brings_the_origin_back(
    settled: ReplicaAssignment, target: tuple[int, ...]
) -> None:
    moving = reassign_to(settled, target)
    called_off = reassigned(moving, None)
    if is_being_reassigned(moving):
        assert called_off is not None
        assert set(called_off.replicas) == set(settled.replicas)
        assert not is_being_reassigned(called_off)
    else:
        assert called_off is None


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ((), "Empty replica list specified in partition reassignment."),
        (
            (1, 1),
            "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 1)",
        ),
        ((1, -1), "Invalid broker id in replica list: ArrayBuffer(1, -1)"),
        (
            (1, 99),
            "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(99), "
            "live broker list: Set(0, 1)",
        ),
        ((0, 1), None),
        ((2,), None),
    ],
)
def test_targets_that_cannot_be_are_refused(target: tuple[int, ...], sentence: str | None) -> None:
    # A replica on a broker that is down may stay where it is; none is added there.
    current = ReplicaAssignment(replicas=(1, 2))
    assert refused_target(current, target, {1, 0}) == sentence


def test_a_target_of_many_brokers_is_compared_once_for_each() -> None:
    compared = 0

    class Broker(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int.__eq__(self, other)  # type: ignore[arg-type]

    target = tuple(map(Broker, range(1_000)))

    refused_target(ReplicaAssignment(replicas=(1, 2, 3)), target, [1])

    assert compared < 10 * len(target)
