"""Operations of the API on groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.done import Done
from kbroker.console.groups import (
    GroupDetails,
    GroupPage,
    ResetPreview,
    delete,
    group,
    groups,
    preview_reset,
    reset,
)
from kbroker.console.web.api.operation import PAGE_PARAMETERS, Given, Operation
from kbroker.console.web.api.topic_operations import wanted_of
from kbroker.console.web.console import Console
from kbroker.console.web.web_request import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsToReset:
    """The target of a reset, as the command `group reset` takes it, for partitions by topic: an
    empty list means all of a topic, no topics all that the group has offsets for. Nothing is set
    unless `confirmed` is true: the answer says what would be.
    """

    to: str
    topics: Mapping[str, Sequence[int]] = field(default_factory=dict)
    confirmed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A reset as it was planned; `is_done`: it was asked for, and offsets were set in all
    partitions but the `refused` ones.
    """

    planned: ResetPreview
    is_done: bool
    refused: tuple[str, ...]


async def _groups(console: Console, given: Given) -> GroupPage:
    return await groups(console.cluster, wanted_of(given))


async def _group(console: Console, given: Given) -> GroupDetails:
    return await group(console.cluster, given.places["group"])


async def _reset(console: Console, given: Given) -> Reset:
    name, body = given.places["group"], given.body
    wanted = {topic: frozenset(numbers) for topic, numbers in body.topics.items()}
    now_ms = unix_now_ms()
    planned = await preview_reset(console.cluster, name, body.to, wanted, now_ms)
    if not body.confirmed:
        return Reset(planned=planned, is_done=False, refused=())
    if planned.refusal is not None:
        raise RefusedError(409, planned.refusal)
    offsets = {each.place: each.new_offset for each in planned.offsets}
    failed = await reset(console.cluster, name, offsets)
    refused = tuple(f"{place}: {reason}" for place, reason in sorted(failed.items()))
    return Reset(planned=planned, is_done=True, refused=refused)


async def _delete(console: Console, given: Given) -> Done:
    name = given.places["group"]
    await delete(console.cluster, name)
    return Done(said=(f"{name}: deleted",), refused=())


OPERATIONS: Final = (
    Operation(
        name="listGroups",
        path="/groups",
        summary="Groups with their states and lags, a page at a time.",
        answer=GroupPage,
        function=_groups,
        parameters=PAGE_PARAMETERS,
    ),
    Operation(
        name="getGroup",
        path="/groups/{group}",
        summary="A group: its members, and its offsets and lag by partition.",
        answer=GroupDetails,
        function=_group,
    ),
    Operation(
        name="deleteGroup",
        method="DELETE",
        path="/groups/{group}",
        summary="Delete a group without members, with its offsets.",
        answer=Done,
        function=_delete,
    ),
    Operation(
        name="resetGroup",
        method="POST",
        path="/groups/{group}/reset",
        summary="Set the offsets of a group without members, or say what they would be.",
        answer=Reset,
        function=_reset,
        body=OffsetsToReset,
    ),
)
