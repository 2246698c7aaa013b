"""Members of both protocols, as their client libraries keep them: those of the classic protocol
give up everything before they join again (eager), or what their leader takes away (cooperative).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from kbroker.coordinator.consumer_protocol import (
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from kbroker.coordinator.group_coordinator import Caller
from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.fakes.brokers.classic_members import subscription
from tests.fakes.brokers.consumer_groups import owned
from tests.fakes.brokers.group_broker import TOPIC_ID

GROUP = "g"
REBALANCE_MS = 20_000
CLASSIC_SESSION_MS = 10_000
_LOST = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}
_FENCED = {
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
}


@dataclass(eq=False)
class Process:
    """A client. It reads what it `has`, and waits for the answer that is `pending`."""

    name: str
    instance_id: str | None
    member_id: str = ""
    epoch: int = -1
    has: set[int] = field(default_factory=set)
    pending: Any = None
    is_gone: bool = False

    def send(self, groups: Any) -> Any:
        """Send what is next."""
        raise NotImplementedError

    def take(self, answer: Any) -> None:
        """An answer has come."""
        raise NotImplementedError

    def leave(self, groups: Any) -> Any:
        """Say that it goes."""
        raise NotImplementedError


class New(Process):
    """A member of the new protocol. It says everything in each heartbeat."""

    told: set[int] | None = None

    def send(self, groups: Any) -> Any:
        if self.told is not None:
            self.has &= self.told
        return self._heartbeat(groups, max(0, self.epoch))

    def leave(self, groups: Any) -> Any:
        return self._heartbeat(groups, -1)

    def away(self, groups: Any) -> Any:
        """Say that it goes for a while, and another process comes for it."""
        return self._heartbeat(groups, -2)

    def _heartbeat(self, groups: Any, epoch: int) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["t"],
            topic_partitions=owned(sorted(self.has)),
        )
        return groups.consumer_groups.heartbeat(
            request, api_version=1, client_id=self.name, client_host="/127.0.0.1"
        )

    def take(self, answer: Any) -> None:
        code = ErrorCode(answer.error_code)
        if code in _FENCED:
            self.epoch, self.has, self.told = -1, set(), None
        elif code is ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                self.told = {
                    p for each in topics if each.topic_id == TOPIC_ID for p in each.partitions
                }
                self.has &= self.told

    def begin(self) -> None:
        """Read what it shall, and has not read yet."""
        if self.told is not None:
            self.has = set(self.told)


class Classic(Process):
    """A member of the classic protocol."""

    is_cooperative: bool = False
    phase: str = "join"
    joined: JoinGroupResponse | None = None
    is_forgotten: bool = False  # was removed, and joins under its id without knowing
    count: int = 0  # of the partitions that a leader assigns

    def send(self, groups: Any) -> Any:
        if self.phase == "join":
            return self._join(groups)
        if self.phase == "sync":
            return self._sync(groups)
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return groups.heartbeat(request)

    def _join(self, groups: Any) -> Any:
        if not self.is_cooperative:
            self.has = set()
        name = "cooperative-sticky" if self.is_cooperative else "range"
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(
            name=name, metadata=subscription(owned=sorted(self.has))
        )
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=CLASSIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        caller = Caller(client_id=self.name, client_host="/127.0.0.1", api_version=9)
        return groups.join_group(request, caller)

    def _sync(self, groups: Any) -> Any:
        joined = self.joined
        assert joined is not None
        given = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            given = assigned(joined, self.count, is_cooperative=self.is_cooperative)
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member_id, assignment=assignment_bytes({"t": sorted(share)}, 1)
                )
                for member_id, share in given.items()
            ],
        )
        return groups.sync_group(request)

    def leave(self, groups: Any) -> Any:
        member = LeaveGroupRequest.MemberIdentity(
            member_id=self.member_id, group_instance_id=self.instance_id
        )
        return groups.leave_group(GROUP, [member])

    def take(self, answer: Any) -> None:
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if code is ErrorCode.FENCED_INSTANCE_ID:  # fatal: another process is this member
            self.is_gone, self.has = True, set()
        elif code in _LOST:
            self.has, self.epoch, self.phase, self.is_forgotten = set(), -1, "join", False
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.phase = "join"
        elif code is ErrorCode.NONE:
            self._go_on(answer)

    def _go_on(self, answer: Any) -> None:
        if self.phase == "join":
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            self.joined, self.phase = answer, "sync"
        elif self.phase == "sync":
            topics = read_assignment(answer.assignment).assigned_partitions
            told = {each for topic in topics for each in topic.partitions}
            gives_up = bool(self.has - told)
            self.has, self.joined, self.is_forgotten = told, None, False
            self.phase = "join" if gives_up else "stable"


def assigned(
    joined: JoinGroupResponse, count: int, *, is_cooperative: bool
) -> dict[str, Collection[int]]:
    """The assignment of a leader: balanced, and, if it is cooperative, without what another member
    has to give up first.
    """
    members = {each.member_id: read_subscription(each.metadata) for each in joined.members}
    claims: dict[int, list[str]] = {}
    for member_id, said in members.items():
        for topic in said.owned_partitions:
            for each in topic.partitions:
                claims.setdefault(each, []).append(member_id)
    owner = {each: who[0] for each, who in claims.items() if len(who) == 1 and each < count}
    shares: dict[str, set[int]] = {member_id: set() for member_id in members}
    most = -(-count // len(members))
    for each, member_id in sorted(owner.items()):
        if len(shares[member_id]) < most:
            shares[member_id].add(each)
    for each in range(count):
        if not any(each in share for share in shares.values()):
            least = min(shares, key=lambda name: (len(shares[name]), name))
            shares[least].add(each)
    if is_cooperative:
        for member_id, share in shares.items():
            share -= {each for each in share if set(claims.get(each, ())) - {member_id}}
    return dict(shares)
