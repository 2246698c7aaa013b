"""The short form of the hunt in reassignment_rounds, and that it finds what is wrong."""

from __future__ import annotations

import pytest

from kbroker.controller.event_handlers.reassignments import Reassignments
from kbroker.controller.event_handlers.state_changes import StateChanges
from tests.faults.reassignment_rounds import play

ROUNDS = 40


def test_partitions_arrive_whatever_happens_to_brokers() -> None:
    play_rounds()


def play_rounds() -> None:
    for seed in range(ROUNDS):
        play(seed)


async def _nothing(*_args: object) -> None:
    pass


async def _epoch_stays(*_args: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "name", "broken"),
    [
        (Reassignments, "_move_leader", _nothing),
        (Reassignments, "_drop_replicas", _nothing),
        (Reassignments, "_remove_from_request", _nothing),
        (StateChanges, "raise_leader_epoch", _epoch_stays),
    ],
)
def test_a_planted_bug_is_found(
    owner: type, name: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError):
        play_rounds()
