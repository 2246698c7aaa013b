"""What happened to a group and to a partition, asked at the HTTP address of a running broker."""

from __future__ import annotations

import asyncio
import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.group.commands import describe
from kbroker.errors import ErrorCode
from tests.integration.group_client import GroupClient
from tests.integration.local_cluster_client import Cluster, running

GROUP = "a group\x1b[31m&x=1"


def port_of(cluster: Cluster) -> int:
    return cluster.server(0).http_end_points[0].port


async def get(cluster: Cluster, path: str) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", port_of(cluster), timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
        connection.close()
        return status, text

    return await asyncio.to_thread(ask)


async def described(cluster: Cluster, *names: str, output: str = "json") -> Result:
    url = f"http://127.0.0.1:{port_of(cluster)}"
    words = [*names, "--events", "--url", url, "--output", output]
    return await asyncio.to_thread(
        lambda: CliRunner().invoke(describe, words, standalone_mode=False)
    )


async def test_a_group_says_what_happened_to_it_and_why(tmp_path: Path) -> None:
    async with running(tmp_path, brokers=1, **{"kbroker.http.listeners": "127.0.0.1:0"}) as cluster:
        client = GroupClient(cluster, GROUP)
        await cluster.coordinator(0, GROUP)
        await client.leave(member_id=await client.stable(), reason="closing")

        found: Any = json.loads((await described(cluster, GROUP)).stdout)
        table = (await described(cluster, GROUP, output="table")).stdout
        other = await described(cluster, "other")

        assert [(row["event"], row["cause"]) for row in found] == [
            ("rebalance", "new_member"),
            ("group_stable", "assigned"),
            ("rebalance", "member_left"),
        ]
        assert {row["group"] for row in found} == {GROUP}
        assert found[2]["message"].endswith("left; its reason: 'closing'")
        assert [row["time"] for row in found] == sorted(row["time"] for row in found)
        assert "\x1b" not in table
        assert "nothing has happened to it lately at http://127.0.0.1:" in other.stderr


async def test_a_partition_and_all_have_their_events_and_nonsense_is_refused(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, brokers=1, **{"kbroker.http.listeners": "127.0.0.1:0"}) as cluster:
        code = await cluster.produce(0, "nowhere", 3, b"v")
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        of_partition = await get(cluster, "/api/events?topic=nowhere&partition=3")
        of_all = await get(cluster, "/api/events")
        refused = [
            (await get(cluster, f"/api/events?{query}"))[0]
            for query in ("group=g&topic=t", "topic=t", "partition=1", "topic=t&partition=x", "a=b")
        ]

        (row,) = json.loads(of_partition[1])["events"]
        assert (row["event"], row["code"]) == ("append_refused", "UNKNOWN_TOPIC_OR_PARTITION")
        assert json.loads(of_all[1])["events"] == [row]
        assert refused == [400] * 5


def test_an_address_where_no_broker_answers_is_named() -> None:
    with pytest.raises(CommandError, match="cannot connect to http"):
        describe.main(["g", "--events", "--url", "http://127.0.0.1:1"], standalone_mode=False)
