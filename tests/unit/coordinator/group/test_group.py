"""What the members of a group support together."""

from __future__ import annotations

import pytest

from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.member import Member
from kbroker.coordinator.group.records import (
    GroupMetadataValue,
    read_group_metadata,
)
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import encode


def member(member_id: str, *protocols: str, instance_id: str | None = None) -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[(name, b"") for name in protocols],
    )


def test_candidates_follow_members_that_come_change_and_go() -> None:
    group = Group("g")
    group.add(member("a", "range", "sticky"))
    group.add(member("b", "sticky", "sticky", "range"))
    both = group.candidate_protocols()

    group.set_protocols(group.members["b"], [("sticky", b""), ("new", b"")])
    changed = group.candidate_protocols()
    group.remove("a")
    alone = group.candidate_protocols()

    assert both == {"range", "sticky"}
    assert changed == {"sticky"}
    assert alone == {"sticky", "new"}
    assert not group.supports_protocols("consumer", ["range"])


def test_group_without_members_has_no_candidates() -> None:
    group = Group("g")
    group.add(member("a", "range"))
    group.remove("a")

    assert group.candidate_protocols() == frozenset()
    assert group.supports_protocols("connect", ["anything"])


@pytest.mark.parametrize(("second", "instance"), [("a", None), ("b", "i")])
def test_record_that_names_a_member_twice_is_no_group(second: str, instance: str | None) -> None:
    entries = [
        GroupMetadataValue.MemberMetadata(member_id="a", group_instance_id="i"),
        GroupMetadataValue.MemberMetadata(member_id=second, group_instance_id=instance),
    ]
    value = GroupMetadataValue(protocol_type="consumer", generation=1, members=entries)

    with pytest.raises(ProtocolError, match="twice"):
        read_group_metadata("g", b"\0\3" + encode(value, 3))
