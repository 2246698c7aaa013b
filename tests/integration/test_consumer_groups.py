"""A broker that serves consumer groups of the new protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.fakes.running.console_client import HttpConsoleClient
from tests.integration.local_cluster_client import Cluster, running


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    settings = {
        "kbroker.http.listeners": "127.0.0.1:0",
        "group.consumer.assignment.interval.ms": "0",
    }
    async with running(tmp_path, brokers=1, **settings) as cluster:
        yield cluster


def beat(member_id: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **fields
    )


FIRST = {"rebalance_timeout_ms": 20_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


async def test_members_join_share_a_topic_and_go(cluster: Cluster) -> None:
    assert await cluster.create("t", 4, through=0) is ErrorCode.NONE
    await cluster.coordinator(0, "g")

    first = await cluster.ask(0, beat("m1", 0, **FIRST))
    second = await cluster.ask(0, beat("m2", 0, **FIRST))

    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (0, 2, 5_000)
    assert sorted(first.assignment.topic_partitions[0].partitions) == [0, 1, 2, 3]
    assert (second.error_code, second.assignment.topic_partitions) == (0, [])
    left = await cluster.ask(0, beat("m1", -1))
    assert (left.error_code, left.member_epoch) == (0, -1)


async def test_people_see_its_members_and_what_they_shall_have(cluster: Cluster) -> None:
    await cluster.create("t", 4, through=0)
    await cluster.coordinator(0, "g")
    for member_id in ("m1", "m2"):
        await cluster.ask(0, beat(member_id, 0, **FIRST))
    client = HttpConsoleClient(cluster.server(0).http_end_points[0].port)

    shown = (await client.get("/groups/g/members")).text
    found = (await client.get("/api/v1/groups/g")).value

    assert "Epoch 3" in shown
    assert "Shall have Epoch Protocol" in shown
    members = {each["member_id"]: each for each in found["members"]}
    assert (found["epoch"], found["target_epoch"], found["strategy"]) == (3, 3, "uniform")
    assert [(each["epoch"], each["protocol"]) for each in members.values()] == [
        (2, "consumer"),
        (3, "consumer"),
    ]
    assert len(members["m1"]["partitions"]) == 4
    assert [len(each["target"]) for each in members.values()] == [2, 2]
