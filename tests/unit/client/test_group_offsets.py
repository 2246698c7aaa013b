"""What groups have committed, from what coordinators answer."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.structs import OffsetAndMetadata, TopicPartition

from kbroker.client.group_offsets import Member, read_groups

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """An admin client with one group `g`, whose one member has partition 1."""

    def __init__(self, assignment: Any) -> None:
        self.assignment = assignment

    def describe_groups(self, names: list[str]) -> dict[str, Any]:
        member = {
            "member_id": "m",
            "client_id": "c",
            "client_host": "/h",
            "member_assignment": self.assignment,
        }
        known = {"group_state": "Stable", "members": [member]}
        dead: dict[str, Any] = {"group_state": "Dead", "members": []}
        return {name: known if name == "g" else dead for name in names}

    def list_group_offsets(self, names: list[str]) -> dict[str, Any]:
        offsets = {P0: OffsetAndMetadata(5, "", -1), P1: OffsetAndMetadata(-1, "", -1)}
        return {name: offsets if name == "g" else {} for name in names}


ASSIGNED = {"assigned_partitions": [{"topic": "t", "partitions": [1]}]}


def test_committed_offsets_and_owned_partitions_are_told() -> None:
    group = read_groups(Coordinator(ASSIGNED), ["g"])["g"]

    assert group.committed == {P0: 5, P1: None}
    assert group.owners == {P1: Member(member_id="m", client_id="c", host="/h")}
    assert (group.state, group.member_count, group.is_unknown) == ("Stable", 1, False)


@pytest.mark.parametrize("assignment", [b"", None, b"of another protocol"])
def test_a_member_without_assignment_owns_nothing(assignment: bytes | None) -> None:
    group = read_groups(Coordinator(assignment), ["g"])["g"]

    assert (group.owners, group.member_count) == ({}, 1)


def test_a_group_nobody_has_heard_of_is_unknown_and_so_are_its_members() -> None:
    group = read_groups(Coordinator(ASSIGNED), ["other"])["other"]

    assert (group.is_unknown, group.member_count) == (True, None)


def test_no_names_ask_nobody() -> None:
    assert read_groups(None, []) == {}
