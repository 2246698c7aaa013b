"""Tables of groups: what their columns hold, and names that are not made for tables."""

from __future__ import annotations

from dataclasses import replace

from kbroker.cli.kafka_tools.group_tables import members_table, state_table, verbose_members_table
from kbroker.client.consumer_groups import (
    ConsumerGroup,
    GroupEpochs,
    GroupMember,
    MemberOnTheWay,
)
from kbroker.model import TopicPartition

A, B = (TopicPartition("a", 0), TopicPartition("a", 2)), (TopicPartition("b", 1),)


def group(name: str, *members: GroupMember) -> ConsumerGroup:
    return ConsumerGroup(
        name=name, state="Stable", members=members, committed={}, coordinator=3, strategy="range"
    )


def member(*places: TopicPartition) -> GroupMember:
    return GroupMember(member_id="m-1", client_id="c", host="/h", partitions=places)


def test_what_members_read_is_told_by_topic() -> None:
    table = verbose_members_table(group("g", member(*A, *B), member()))

    assert [line.split()[-4:] for line in table.splitlines()[2:]] == [
        ["-", "a:0,2;b:1", "-", "-"],
        ["-", "-", "-", "-"],
    ]


def test_a_name_with_an_end_of_line_is_in_every_table_as_it_is() -> None:
    odd = group("g\n\x1b[31m", member(*B))

    tables = [
        members_table(odd),
        verbose_members_table(odd),
        state_table(odd, "h:1", is_verbose=True),
    ]

    assert [odd.name in table for table in tables] == [True] * 3


def test_of_a_group_whose_coordinator_assigns_epochs_and_targets_are_shown() -> None:
    def on_the_way(protocol: str, epoch: int, *target: TopicPartition) -> GroupMember:
        way = MemberOnTheWay(protocol=protocol, epoch=epoch, target=target)
        return replace(member(*A), way=way)

    new = replace(
        group("g", on_the_way("consumer", 4, *A, *B), on_the_way("consumer", 5)),
        epochs=GroupEpochs(6, 5),
    )
    mixed = replace(new, members=(new.members[0], on_the_way("classic", 5)))

    assert [line.split()[-4:] for line in verbose_members_table(new).splitlines()[2:]] == [
        ["4", "a:0,2", "5", "a:0,2;b:1"],
        ["5", "a:0,2", "5", "-"],
    ]
    assert [line.split()[-2:] for line in verbose_members_table(mixed).splitlines()[1:]] == [
        ["TARGET-ASSIGNMENT", "UPGRADED"],
        ["a:0,2;b:1", "true"],
        ["-", "false"],
    ]
    heads, row = state_table(new, "h:1", is_verbose=True).splitlines()[1:]
    assert heads.split()[-3:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert row.split()[-3:] == ["6", "5", "2"]
