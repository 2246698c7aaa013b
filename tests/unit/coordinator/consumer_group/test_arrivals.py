"""A group whose last member has reached its target is reported once, whoever came last."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kbroker.coordinator.consumer_group.changes import Change
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.happenings import arrival
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.record_values import (
    CurrentMemberAssignment,
    GroupMetadata,
    MemberState,
    RecordKind,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.consumer_group.step import Attendance

MEMBERS = ("a", "b", "c", "d", "e")
Moves = list[tuple[str, bool]]  # a member, and whether it is at its target then


def begin_epoch(group: ConsumerGroup, epoch: int) -> None:
    group.apply(Change(RecordKind.GROUP_METADATA, "", GroupMetadata(epoch)))
    target = TargetAssignmentMetadata(epoch)
    group.apply(Change(RecordKind.TARGET_ASSIGNMENT_METADATA, "", target))


def move(group: ConsumerGroup, member_id: str, epoch: int, state: MemberState) -> None:
    assignment = CurrentMemberAssignment(epoch, epoch - 1, state, {}, {})
    group.apply(Change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, member_id, assignment))


@given(st.lists(st.tuples(st.sampled_from(MEMBERS), st.booleans()), max_size=30))
def test_it_is_reported_when_all_are_there_at_once_and_only_then(moves: Moves) -> None:
    group, attendance = ConsumerGroup("g"), Attendance()
    begin_epoch(group, 2)
    for name in MEMBERS:
        move(group, name, 1, MemberState.STABLE)

    was_reported = False
    for name, is_there in moves:
        state = MemberState.STABLE if is_there else MemberState.UNREVOKED_PARTITIONS
        move(group, name, 2 if is_there else 1, state)
        is_reported = arrival(group, attendance) is not None
        are_there = all(each.is_reconciled_to(2) for each in group.members.values())
        assert is_reported == (are_there and not was_reported)
        was_reported |= is_reported


def test_few_looks_are_enough_in_either_order() -> None:
    names = [f"m-{number}" for number in range(200)]
    for order in (1, -1):
        group, attendance = ConsumerGroup("g"), Attendance()
        begin_epoch(group, 2)
        for name in names:
            move(group, name, 1, MemberState.STABLE)
        looks = 0

        def look(member: Member, epoch: int) -> bool:
            nonlocal looks
            looks += 1
            return member.epoch == epoch

        with patch.object(Member, "is_reconciled_to", look):
            for name in names[::order]:
                move(group, name, 2, MemberState.STABLE)
                reached = arrival(group, attendance)
        assert reached is not None
        assert looks < 5 * len(names)
