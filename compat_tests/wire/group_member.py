"""A member of a classic consumer group, spoken request by request."""

from __future__ import annotations

from typing import Any

from compat_tests.wire.wire_client import (
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    SYNC_GROUP,
    WireClient,
    code,
)

ASSIGNMENT = b"\0\1\0\0\0\0\0\0\0\0"  # version 1, no topics, no user data


def subscription(*topics: str) -> bytes:
    """Return the bytes of a consumer's `range` protocol: version 0, topics, no user data."""
    names = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


class Member:
    """One member on a connection of its own; the fields are those of its last JoinGroup."""

    def __init__(self, wire: WireClient, group: str, instance: str | None = None) -> None:
        self.wire = wire
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1

    def join_fields(self, **values: Any) -> dict[str, Any]:
        """Fields of JoinGroup v5 of this member."""
        return {
            "group_id": self.group,
            "session_timeout": 10_000,
            "rebalance_timeout": 5_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription()}],
            **values,
        }

    def join(self, **values: Any) -> Any:
        """JoinGroup v5, a second time with the given id where that is asked for."""
        answer = self.wire.call(JOIN_GROUP, 5, **self.join_fields(**values))
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return self.join(**values) if answer.error_code.value == 79 else answer

    def start_joining(self) -> int:
        """Get a member id and send the JoinGroup that waits for the others; its correlation id."""
        answer = self.wire.call(JOIN_GROUP, 5, **self.join_fields())
        self.member_id = answer.member_id
        return self.wire.send(JOIN_GROUP, 5, **self.join_fields())

    def join_and_sync(self) -> Member:
        """Become the only, stable member."""
        assert code(self.join().error_code) == "0"
        assert self.sync() == "0"
        return self

    def sync(self, **values: Any) -> str:
        """SyncGroup v3 as the leader of a group of one."""
        assignments = [{"member_id": self.member_id, "assignment": ASSIGNMENT}]
        fields = {**self.identity(), "assignments": assignments, **values}
        return code(self.wire.call(SYNC_GROUP, 3, **fields).error_code)

    def heartbeat(self, **values: Any) -> str:
        """Heartbeat v3."""
        return code(self.wire.call(HEARTBEAT, 3, **{**self.identity(), **values}).error_code)

    def leave(self) -> str:
        """LeaveGroup v1."""
        answer = self.wire.call(LEAVE_GROUP, 1, group_id=self.group, member_id=self.member_id)
        return code(answer.error_code)

    def commit(self, topic: str, **values: Any) -> str:
        """OffsetCommit v7 as this member."""
        identity = {"generation": self.generation, "member_id": self.member_id}
        return commit(
            self.wire, self.group, topic, **{**identity, "instance": self.instance, **values}
        )

    def describe(self) -> str:
        """State, protocol and number of members, from DescribeGroups v5."""
        described = self.wire.call(DESCRIBE_GROUPS, 5, groups=[self.group]).groups[0]
        assert described.error_code == 0
        return f"{described.group_state} protocol={described.protocol_data!r} members={len(described.members)}"

    def identity(self) -> dict[str, Any]:
        """The fields that name group, generation and member."""
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance,
        }


def commit(wire: WireClient, group: str, topic: str, **values: Any) -> str:
    """OffsetCommit v7 of offset 1 of partition 0, if not said otherwise."""
    partition = {
        "partition_index": values.get("partition", 0),
        "committed_offset": values.get("offset", 1),
        "committed_metadata": values.get("metadata", ""),
    }
    answer = wire.call(
        OFFSET_COMMIT,
        7,
        group_id=group,
        generation_id_or_member_epoch=values.get("generation", -1),
        member_id=values.get("member_id", ""),
        group_instance_id=values.get("instance"),
        topics=[{"name": topic, "partitions": [partition]}],
    )
    return code(answer.topics[0].partitions[0].error_code)
