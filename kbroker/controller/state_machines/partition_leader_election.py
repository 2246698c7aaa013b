"""Leader election: the four ways to choose a leader, as functions over lists and sets.

Law: the leader comes from the in-sync replicas, in the order of the assignment; only the offline
election may go outside them, and only when the topic allows it (unclean.leader.election.enable),
because that loses records.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Elected:
    """The outcome: the leader and the replicas in sync under it.

    `unclean` when records may have been lost.
    """

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


def elect_offline(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int], allow_unclean: bool
) -> Elected | None:
    """Without a live leader: the first live in-sync replica, or any live one if that is allowed."""
    leader = _first(assignment, live, isr)
    if leader is not None:
        return Elected(leader, tuple(b for b in isr if b in live))
    if not allow_unclean:
        return None
    leader = next((b for b in assignment if b in live), None)
    return Elected(leader, (leader,), unclean=True) if leader is not None else None


def elect_reassigned(
    target: Sequence[int], isr: Collection[int], live: Collection[int]
) -> Elected | None:
    """A partition that moves: first living in-sync replica of the target assignment."""
    leader = _first(target, live, isr)
    return Elected(leader, tuple(isr)) if leader is not None else None


def elect_preferred(
    assignment: Sequence[int], isr: Collection[int], live: Collection[int]
) -> Elected | None:
    """Back to the first replica of the assignment, if it lives and is in sync."""
    leader = _first(assignment[:1], live, isr)
    return Elected(leader, tuple(isr)) if leader is not None else None


def elect_controlled_shutdown(
    assignment: Sequence[int],
    isr: Collection[int],
    live: Collection[int],
    shutting_down: Collection[int],
) -> Elected | None:
    """Away from brokers that are about to stop; they leave the ISR as well.

    `live` includes those brokers.
    """
    staying = [b for b in live if b not in shutting_down]
    leader = _first(assignment, staying, isr)
    if leader is None:
        return None
    return Elected(leader, tuple(b for b in isr if b not in shutting_down))


def _first(assignment: Sequence[int], live: Collection[int], isr: Collection[int]) -> int | None:
    return next((b for b in assignment if b in live and b in isr), None)
