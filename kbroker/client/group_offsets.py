"""What groups have committed, and who reads each partition: one question per coordinator.

For the pipeline, whose clients are kafka-python's; commands ask by `consumer_groups`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.structs import TopicPartition

UNKNOWN_GROUP_STATE = "Dead"  # what a coordinator says of a group it has never heard of


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group, as its coordinator names it."""

    member_id: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsets:
    """A group: its state, its members, and the partitions it reads or has offsets of.

    The offset is that of the next record to read; None where nothing is committed. Members of a
    group of KIP-848 are not known here: the request for classic groups does not tell them, and has
    the state of an unknown group for it.
    """

    name: str
    state: str
    member_count: int | None
    committed: Mapping[TopicPartition, int | None]
    owners: Mapping[TopicPartition, Member]

    @property
    def is_unknown(self) -> bool:
        """Whether the cluster knows neither members nor offsets of it."""
        return self.state == UNKNOWN_GROUP_STATE and not self.committed


def read_groups(admin: Any, names: Sequence[str]) -> dict[str, GroupOffsets]:
    """The groups of these names; one that does not exist is there too, and unknown."""
    if not names:
        return {}
    described = admin.describe_groups(list(names))
    committed = admin.list_group_offsets(list(names))
    return {name: _group(name, described[name], committed.get(name, {})) for name in names}


def _group(
    name: str, described: Mapping[str, Any], answered: Mapping[TopicPartition, Any]
) -> GroupOffsets:
    owners = {
        TopicPartition(entry["topic"], partition): Member(
            member_id=member["member_id"],
            client_id=member["client_id"],
            host=member["client_host"],
        )
        for member in described["members"]
        for entry in _assigned(member)
        for partition in entry["partitions"]
    }
    offsets = {
        partition: committed.offset if committed.offset >= 0 else None
        for partition, committed in answered.items()
    }
    state = described["group_state"]
    return GroupOffsets(
        name=name,
        state=state,
        member_count=None if state == UNKNOWN_GROUP_STATE else len(described["members"]),
        committed=dict.fromkeys(owners) | offsets,
        owners=owners,
    )


def _assigned(member: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    assignment = member["member_assignment"]
    # A member that waits for its assignment has empty bytes, and other protocols have their own.
    return assignment.get("assigned_partitions", []) if isinstance(assignment, Mapping) else []
