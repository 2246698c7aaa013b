"""Ten rebalances of a running broker, provoked by raw requests in ten ways: each has its reason in
the log and in the history of its group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kbroker.events.event import Event
from tests.fakes.running.waiting import until
from tests.integration.group_client import GroupClient
from tests.integration.local_cluster_client import running

SHORT_MS = 50


async def new_member(client: GroupClient) -> None:
    await client.stable()
    second = asyncio.create_task(client.join(reason="rolled out"))
    await until(lambda: len(client.rebalances()) == 2)
    second.cancel()
    with suppress(asyncio.CancelledError):
        await second


async def member_left(client: GroupClient) -> None:
    await client.leave(member_id=await client.stable(), reason="it is being closed")


async def removed_by_admin(client: GroupClient) -> None:
    await client.stable(group_instance_id="i")
    await client.leave(group_instance_id="i", reason="no longer wanted")


async def session_expired(client: GroupClient) -> None:
    await client.join(session_ms=SHORT_MS)  # a SyncGroup might come too late


async def sync_timeout(client: GroupClient) -> None:
    await client.join(rebalance_ms=SHORT_MS)


async def metadata_changed(client: GroupClient) -> None:
    await client.join(await client.stable(), protocols={"range": b"b"})


async def protocols_changed(client: GroupClient) -> None:
    await client.join(await client.stable(), protocols={"sticky": b"", "range": b"a"})


async def leader_rejoined(client: GroupClient) -> None:
    await client.join(await client.stable(), reason="topics have other partitions")


async def static_member_replaced(client: GroupClient) -> None:
    await client.stable(group_instance_id="i")
    await client.join(group_instance_id="i", protocols={"sticky": b"", "range": b"a"})


WAYS: dict[Callable[[GroupClient], Awaitable[None]], str] = {
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
            client = GroupClient(cluster, cause)
            await cluster.coordinator(0, cause)

            await way(client)

            found = await until(lambda c=client: second_of(c))
            assert (found.cause, reason in found.sentence()) == (cause, True), found.sentence()
            assert found.sentence() in caplog.messages
        await two_members(GroupClient(cluster, "too large"))

    async with running(tmp_path, brokers=1, **{"group.max.size": "1"}) as cluster:
        client = GroupClient(cluster, "too large")
        found = await until(lambda: next(iter(client.rebalances()), None))
        assert found.cause == "group_too_large"
        assert found.sentence() in caplog.messages


def second_of(client: GroupClient) -> Event | None:
    """The rebalance after that of the first member, which joined."""
    return next(iter(client.rebalances()[1:]), None)


async def two_members(client: GroupClient) -> None:
    await client.cluster.coordinator(0, client.group)
    first = await client.stable()
    second = asyncio.create_task(client.join())
    await until(lambda: len(client.rebalances()) == 2)
    joined = await client.join(first)
    other = await second
    await asyncio.gather(client.sync(joined), client.sync(other))
