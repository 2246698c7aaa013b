"""Members of the classic protocol, as their clients keep them, at a group coordinator."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from kbroker.coordinator.consumer_protocol import (
    ConsumerProtocolSubscription,
    assignment_bytes,
    read_assignment,
)
from kbroker.coordinator.runtime.versioned_record import versioned
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupResponse
from tests.fakes.brokers.group_broker import GroupBroker


def subscription(
    topics: Collection[str] = ("t",),
    owned: Collection[int] = (),
    *,
    version: int = 1,
    generation_id: int = -1,
) -> bytes:
    """A subscription to topics, of a member that owns partitions of topic t."""
    partitions = ConsumerProtocolSubscription.TopicPartition
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[partitions(topic="t", partitions=list(owned))] if owned else [],
        generation_id=generation_id,
    )
    return versioned(message, version)


class ClassicMemberOf:
    """A member of the classic protocol; `has` are the partitions of topic t that it has."""

    def __init__(
        self, broker: GroupBroker, *, group_id: str = "g", instance_id: str | None = None
    ) -> None:
        self.broker, self.group_id, self.instance_id = broker, group_id, instance_id
        self.member_id = ""
        self.generation = -1
        self.has: list[int] = []
        self.topics: Collection[str] = ("t",)

    def join(self, **fields: Any) -> JoinGroupResponse:
        """Join, or join again, with what it has."""
        given = {"metadata": subscription(self.topics, self.has), **fields}
        answer: Any = self.broker.join(
            self.group_id,
            self.member_id,
            version=given.pop("version", 3 if self.instance_id is None else 9),
            group_instance_id=self.instance_id,
            **given,
        )
        if isinstance(answer, JoinGroupResponse):
            self.joined(answer)
        return answer

    def joined(self, answer: JoinGroupResponse) -> None:
        """Take an answer to a JoinGroup that had to wait."""
        if answer.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = answer.member_id
        if answer.error_code == 0:
            self.generation = answer.generation_id

    def sync(self, shares: dict[str, Iterable[int]] | None = None) -> SyncGroupResponse:
        """Fetch the assignment; a leader brings everybody's `shares` of topic t, by member id."""
        assignments = {
            member_id: assignment_bytes({"t": share}, 1)
            for member_id, share in (shares or {}).items()
        }
        answer: Any = self.broker.sync(
            self.member_id,
            self.generation,
            self.group_id,
            group_instance_id=self.instance_id,
            assignments=assignments,
        )
        if isinstance(answer, SyncGroupResponse) and answer.error_code == 0:
            assigned = read_assignment(answer.assignment).assigned_partitions
            self.has = sorted(each for topic in assigned for each in topic.partitions)
        return answer

    def beat(self) -> ErrorCode:
        """Send a heartbeat."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        code: ErrorCode = self.broker.groups.heartbeat(request)
        return code

    def leave(self) -> tuple[ErrorCode, list[ErrorCode]]:
        """Leave the group."""
        member = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id
        )
        outcome: tuple[ErrorCode, list[ErrorCode]]
        outcome = self.broker.groups.leave_group(self.group_id, [member])
        return outcome

    def catch_up(self) -> None:
        """Join and sync once more if a heartbeat asks for it; in a consumer group nobody waits."""
        if self.beat() is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
            self.sync()
