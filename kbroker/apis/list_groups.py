"""ListGroups (16): the groups this broker coordinates.

v1: throttle time. v4: filter by state, and states (KIP-518). v5: filter by type, and types
(KIP-848).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kbroker.acl.acl import CLUSTER, AclOperation, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import Purpose
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group_kinds import GROUP_TYPES, ConsumerGroupState
from kbroker.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from kbroker.slices import slices
from kbroker.turns import ENTRIES

Group = ListGroupsResponse.ListedGroup

_BYTES_OF_GROUP = 64
_STATES = (*GroupState, *ConsumerGroupState)
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))  # what Java takes from both ends of a text
_KNOWN = {state.value.lower() for state in _STATES} | GROUP_TYPES


@api(
    ListGroupsRequest,
    AskedInside(AclOperation.DESCRIBE, AclResourceType.CLUSTER),
    AskedInside(AclOperation.DESCRIBE, AclResourceType.GROUP),
    parts=AS_A_WHOLE,
)
def handle(ctx: RequestContext, request: ListGroupsRequest) -> NowOrLater[ListGroupsResponse]:
    """List the groups that pass the filters and that the client may see."""
    states: set[str] = set()
    types: set[str] = set()
    wanted_states = (name.strip(_TRIMMED) for name in request.states_filter)
    steps = chain(_lower(wanted_states, states), _lower(request.types_filter, types))
    entries = len(request.states_filter) + len(request.types_filter)
    return worked(steps, entries, _listed, ctx, states, types)


def _lower(names: Iterable[str], lowered: set[str]) -> Iterator[None]:
    """Case does not matter. All names that nothing here has are one: the end of 260,000 of them
    would take a turn of 20 ms.
    """
    for name in names:
        low = name.lower()
        lowered.add(low if low in _KNOWN else "")
        yield


def _listed(
    ctx: RequestContext, states: set[str], types: set[str]
) -> NowOrLater[ListGroupsResponse]:
    groups = ctx.services.groups
    size_bytes = _BYTES_OF_GROUP * len(groups.store)
    if not is_large(size_bytes):
        error, found = groups.list_groups(states, types)
        return ListGroupsResponse(error_code=int(error), groups=_shown(ctx, found))
    error, _ = groups.list_groups(states, types, ())
    parts = (
        _shown(ctx, groups.list_groups(states, types, some)[1])
        for some in slices(groups.store, ENTRIES)
    )
    response = ListGroupsResponse(error_code=int(error))
    return written(ctx, response, "groups", parts, size_bytes)


def _shown(ctx: RequestContext, groups: list[Group]) -> list[Group]:
    if not ctx.is_authorized(AclOperation.DESCRIBE, CLUSTER, Purpose.TO_CHOOSE):
        names = [group.group_id for group in groups]
        hidden = ctx.refused(AclOperation.DESCRIBE, AclResourceType.GROUP, names, Purpose.TO_CHOOSE)
        groups = [group for group in groups if group.group_id not in hidden]
    return groups
