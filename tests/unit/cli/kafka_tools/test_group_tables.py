"""Tables of groups: what their columns hold, and names that are not made for tables."""

from __future__ import annotations

from kbroker.cli.kafka_tools.group_tables import members_table, state_table, verbose_members_table
from kbroker.client.consumer_groups import ConsumerGroup, GroupMember
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
