"""The classic group that takes the place of a consumer group.

Pure. Law: it comes with one write, which ends all that the log has of the consumer group.
"""

from __future__ import annotations

from typing import Any

from kbroker.coordinator.consumer_group.changes import Change, removal_of_group, written
from kbroker.coordinator.consumer_group.step import ConsumerStep
from kbroker.coordinator.group.causes import Cause
from kbroker.coordinator.group.classic_group import ClassicGroup
from kbroker.coordinator.group.coordinated_group import PlaceTaken
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.protocol_change import downgraded
from kbroker.coordinator.group.rebalance import GroupStep, keep_alive, prepare_rebalance
from kbroker.coordinator.group.records import group_metadata
from kbroker.coordinator.runtime.effects import Append, TakePlace
from kbroker.coordinator.runtime.shard import Shard
from kbroker.events.group_events import RebalanceCause


def classic_successor(
    step: ConsumerStep, home: Shard[Any], offsets: GroupOffsets, token: PlaceTaken
) -> TakePlace:
    """Return what puts the classic group in place that a consumer group becomes by a step."""
    group, downgrade = step.group, step.downgrade
    assert downgrade is not None
    made = downgraded(group, downgrade, step.given.topics, offsets, step.now.wall_ms)
    ids, joining = list(group.members), downgrade.joining
    if joining is not None:  # its predecessor is gone with the changes of the step
        replaced = group.static_members[joining.instance_id or ""]
        ids = [joining.member_id if each == replaced else each for each in ids]
    changes = [*step.changes, *removal_of_group(ids, group.resolved)]
    return _taking_place(step, made, home, changes, token, rebalances=downgrade.rebalances)


def empty_successor(
    step: ConsumerStep, home: Shard[Any], offsets: GroupOffsets, token: PlaceTaken
) -> TakePlace:
    """Return what puts an empty classic group in place of an empty consumer group."""
    group = step.group
    made = Group(group.group_id, offsets=offsets)
    made.has_record = True
    made.current_state_timestamp_ms = step.now.wall_ms
    changes = removal_of_group((), group.resolved)
    return _taking_place(step, made, home, changes, token, rebalances=False)


def _taking_place(
    step: ConsumerStep,
    made: Group,
    home: Shard[Any],
    changes: list[Change],
    token: PlaceTaken,
    *,
    rebalances: bool,
) -> TakePlace:
    assignments = {each.member_id: each.assignment for each in made.members.values()}
    records = [*written(made.group_id, changes), group_metadata(made, assignments)]
    first = GroupStep(made, step.given.classic, step.now)
    for member in made.members.values():
        keep_alive(first, member)
    if rebalances:
        prepare_rebalance(first, Cause(RebalanceCause.PROTOCOL_CHANGED))
    successor = ClassicGroup(made, home, step.given.classic)
    return TakePlace(successor, Append(tuple(records), token), tuple(first.effects))
