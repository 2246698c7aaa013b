"""Members of a group of a LocalCluster, by raw requests."""

from __future__ import annotations

from typing import Any

from kbroker.errors import ErrorCode
from kbroker.events.event import Event
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.integration.local_cluster_client import Cluster

LONG_MS = 300_000
RANGE = {"range": b"a"}


class GroupClient:
    """Members of one group, each request on a connection of its own."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.cluster = cluster
        self.group = group

    async def join(
        self,
        member_id: str = "",
        *,
        protocols: dict[str, bytes] = RANGE,
        session_ms: int = LONG_MS,
        rebalance_ms: int = LONG_MS,
        **fields: Any,
    ) -> Any:
        """Join, under the id that is given if none is known."""
        request = JoinGroupRequest(
            group_id=self.group,
            member_id=member_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type="test",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols.items()
            ],
            **fields,
        )
        answer = await self.cluster.ask(0, request)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = answer.member_id
            answer = await self.cluster.ask(0, request)
        return answer

    async def sync(self, joined: Any) -> None:
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=each.member_id)
            for each in joined.members
        ]
        request = SyncGroupRequest(
            group_id=self.group,
            member_id=joined.member_id,
            generation_id=joined.generation_id,
            protocol_type="test",
            protocol_name="range",
            assignments=assignments,
        )
        assert (await self.cluster.ask(0, request)).error_code == 0

    async def stable(self, **fields: Any) -> str:
        """One member of a stable group."""
        joined = await self.join(**fields)
        await self.sync(joined)
        return str(joined.member_id)

    async def leave(self, **fields: Any) -> None:
        member = LeaveGroupRequest.MemberIdentity(**fields)
        await self.cluster.ask(0, LeaveGroupRequest(group_id=self.group, members=[member]))

    def rebalances(self) -> list[Event]:
        kept = self.cluster.server(0).parts.data.events.of_group(self.group)
        return [each.event for each in kept if each.event.name == "rebalance"]
