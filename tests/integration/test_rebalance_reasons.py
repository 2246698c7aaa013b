"""Ten rebalances of a running broker, provoked by raw requests in ten ways: each has its reason in
the log and in the history of its group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.events.event import Event
from kbroker.protocol.messages.join_group import JoinGroupRequest
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.protocol.messages.sync_group import SyncGroupRequest
from tests.fakes.running.waiting import until
from tests.integration.local_cluster_client import Cluster, running

SHORT_MS = 50
LONG_MS = 300_000
RANGE = {"range": b"a"}


class Client:
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


async def new_member(client: Client) -> None:
    await client.stable()
    second = asyncio.create_task(client.join(reason="rolled out"))
    await until(lambda: len(client.rebalances()) == 2)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second


async def member_left(client: Client) -> None:
    await client.leave(member_id=await client.stable(), reason="it is being closed")


async def removed_by_admin(client: Client) -> None:
    await client.stable(group_instance_id="i")
    await client.leave(group_instance_id="i", reason="no longer wanted")


async def session_expired(client: Client) -> None:
    await client.stable(session_ms=SHORT_MS)


async def sync_timeout(client: Client) -> None:
    await client.join(rebalance_ms=SHORT_MS)


async def metadata_changed(client: Client) -> None:
    await client.join(await client.stable(), protocols={"range": b"b"})


async def protocols_changed(client: Client) -> None:
    await client.join(await client.stable(), protocols={"sticky": b"", "range": b"a"})


async def leader_rejoined(client: Client) -> None:
    await client.join(await client.stable(), reason="topics have other partitions")


async def static_member_replaced(client: Client) -> None:
    await client.stable(group_instance_id="i")
    await client.join(group_instance_id="i", protocols={"sticky": b""})


WAYS: dict[Callable[[Client], Awaitable[None]], str] = {
    new_member: "joined; its reason: 'rolled out'",
    member_left: "left; its reason: 'it is being closed'",
    removed_by_admin: "was removed by an administrator; its reason: 'no longer wanted'",
    session_expired: f"sent no heartbeat for {SHORT_MS} ms",
    sync_timeout: f"did not fetch its assignment within {SHORT_MS} ms",
    metadata_changed: "joined again with other metadata",
    protocols_changed: "joined again with other protocols: 'sticky', 'range'",
    leader_rejoined: "by joining again; its reason: 'topics have other partitions'",
    static_member_replaced: "came back as another process, with other protocols",
}


async def test_ten_rebalances_have_ten_reasons(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kbroker.events")
    settings = {"group.min.session.timeout.ms": f"{SHORT_MS}"}
    async with running(tmp_path, brokers=1, **settings) as cluster:
        for way, reason in WAYS.items():
            cause = way.__name__
            client = Client(cluster, cause)
            await cluster.coordinator(0, cause)

            await way(client)

            found = await until(lambda c=client: second_of(c))
            assert (found.cause, reason in found.sentence()) == (cause, True), found.sentence()
            assert found.sentence() in caplog.messages
        await two_members(Client(cluster, "too large"))

    async with running(tmp_path, brokers=1, **{"group.max.size": "1"}) as cluster:
        client = Client(cluster, "too large")
        found = await until(lambda: next(iter(client.rebalances()), None))
        assert found.cause == "group_too_large"
        assert found.sentence() in caplog.messages


def second_of(client: Client) -> Event | None:
    """The rebalance after that of the first member, which joined."""
    return next(iter(client.rebalances()[1:]), None)


async def two_members(client: Client) -> None:
    await client.cluster.coordinator(0, client.group)
    first = await client.stable()
    second = asyncio.create_task(client.join())
    await until(lambda: len(client.rebalances()) == 2)
    joined = await client.join(first)
    other = await second
    await asyncio.gather(client.sync(joined), client.sync(other))
