"""The states of a group of the classic protocol, and which state may follow which.

Pure. Law: a group changes its state only through `Group.transition_to`, which asserts this table,
so that an impossible transition fails where it happens. KIP-62 describes the life of a group.
"""

from __future__ import annotations

from enum import Enum


class GroupState(Enum):
    """A state, with the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"  # no members; offsets may remain until they expire
    PREPARING_REBALANCE = "PreparingRebalance"  # waits for the members to (re)join
    COMPLETING_REBALANCE = "CompletingRebalance"  # waits for the leader's assignment
    STABLE = "Stable"  # every member has, or can fetch, its assignment
    DEAD = "Dead"  # about to be forgotten: deleted, expired or moved to another coordinator


VALID_PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}
