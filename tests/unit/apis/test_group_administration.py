"""DescribeGroups, ListGroups and DeleteGroups in all their versions."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.turns import turns
from tests.fakes.brokers.group_broker import SUBSCRIPTION, GroupBroker
from tests.fakes.brokers.group_caller import GroupCaller

pytestmark = pytest.mark.usefixtures("small_or_large")


def caller() -> GroupCaller:
    """A live group, and one that only keeps offsets."""
    broker = GroupBroker()
    broker.stable_member("live")
    value = CommittedOffset(offset=1, commit_timestamp_ms=0)
    broker.groups.offsets.commit(Committer("old"), [(TopicPartition("t", 0), value)])
    return GroupCaller(broker)


@pytest.mark.parametrize("version", range(7))
def test_stable_group_shows_protocol_and_members(version: int) -> None:
    [group] = caller()(DescribeGroupsRequest(groups=["live"]), version).groups

    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    [member] = group.members
    assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"all")
    assert group.authorized_operations == -(2**31)


def test_group_between_join_and_sync_shows_members_only() -> None:
    broker = GroupBroker()
    broker.join("g", version=3)

    [group] = GroupCaller(broker)(DescribeGroupsRequest(groups=["g"]), 5).groups

    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert [member.member_metadata for member in group.members] == [b""]


@pytest.mark.parametrize("version", range(6))
def test_unknown_group_is_dead(version: int) -> None:
    [group] = caller()(DescribeGroupsRequest(groups=["nog"]), version).groups

    assert (group.error_code, group.group_state) == (0, "Dead")


def test_unknown_group_is_an_error_from_version_6_on() -> None:
    [group] = caller()(DescribeGroupsRequest(groups=["nog"]), 6).groups

    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group nog not found."


def test_authorized_operations_are_those_on_groups_and_on_their_settings() -> None:
    request = DescribeGroupsRequest(groups=["live"], include_authorized_operations=True)

    assert caller()(request, 3).groups[0].authorized_operations == 0b1101_0100_1000


@pytest.mark.parametrize("version", range(6))
def test_list_shows_state_and_type_where_the_version_has_them(version: int) -> None:
    response = caller()(ListGroupsRequest(), version)

    state = "Stable" if version >= 4 else ""
    kind = "classic" if version >= 5 else ""
    assert [
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in response.groups
    ] == [("live", "consumer", state, kind), ("old", "", state and "Empty", kind)]


def test_list_filters() -> None:
    call = caller()

    by_state = call(ListGroupsRequest(states_filter=["Empty"]), 4)
    by_type = call(ListGroupsRequest(types_filter=["consumer"]), 5)

    assert [group.group_id for group in by_state.groups] == ["old"]
    assert by_type.groups == []


class Listing:
    """Lists groups, and says how many states were asked for."""

    def __init__(self, groups: Any) -> None:
        self._groups = groups
        self.store = groups.store
        self.asked = 0

    def list_groups(self, states: Any, *rest: Any) -> Any:
        self.asked = max(self.asked, len(states))
        return self._groups.list_groups(states, *rest)


def test_of_many_names_in_a_filter_those_of_no_state_are_not_kept() -> None:
    call = caller()
    listing: Any = Listing(call.broker.groups)
    call.services = replace(call.services, groups=listing)
    names = [f"no-such-{number}" for number in range(1_000)]

    nothing = call(ListGroupsRequest(states_filter=names), 4)
    by_state = call(ListGroupsRequest(states_filter=[*names, "EMPTY"]), 4)

    assert nothing.groups == []
    assert [group.group_id for group in by_state.groups] == ["old"]
    assert listing.asked == 2


@pytest.mark.parametrize("version", range(4))
def test_delete_says_for_each_group_what_came_of_it(version: int) -> None:
    response = caller()(DeleteGroupsRequest(groups_names=["nog", "live", "old"]), version)

    assert [(each.group_id, each.error_code) for each in response.results] == [
        ("nog", ErrorCode.GROUP_ID_NOT_FOUND),
        ("live", ErrorCode.NON_EMPTY_GROUP),
        ("old", ErrorCode.NONE),
    ]


def test_others_have_their_turn_after_each_group_that_is_deleted() -> None:
    call = caller()
    value = CommittedOffset(offset=1, commit_timestamp_ms=0)
    names = [f"g{number}" for number in range(10)]
    for name in names:
        call.broker.groups.offsets.commit(Committer(name), [(TopicPartition("t", 0), value)])

    async def deleted() -> int:
        given = turns().given
        response = await call.answer(DeleteGroupsRequest(groups_names=names), 2)
        assert [each.error_code for each in response.results] == [ErrorCode.NONE] * 10
        return turns().given - given

    assert asyncio.run(deleted()) >= 9
