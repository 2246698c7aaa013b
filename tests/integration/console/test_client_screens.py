"""Who is connected to a broker and who asks it for what, as its console shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kbroker.peers.broker_client import BrokerClient
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.fakes.running.console_client import HttpConsoleClient
from tests.integration.local_cluster_client import Cluster, running

HOSTILE = "<b>\x1b[31m\u202eme"


async def ask(client: BrokerClient, topic: str) -> None:
    asked = [MetadataRequest.MetadataRequestTopic(name=topic)]
    await client.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False))


def is_followed(cluster: Cluster) -> bool:
    return cluster.server(0).parts.socket_server.request_channel.settle is None


async def ask_wrongly(client: HttpConsoleClient) -> None:
    """Ask for requests that there are none of."""
    for query, words in (
        ("code=none-such", "there is no error code"),
        ("api=Fetsh", "there is no API 'Fetsh', did you mean fetch?"),
    ):
        for path in ("/requests", "/api/v1/requests"):
            wrong = await client.get(f"{path}?{query}")
            assert (wrong.status, words in wrong.text) == (400, True)


async def test_connections_and_requests_are_shown_only_while_somebody_looks(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, brokers=1, **{"kbroker.http.listeners": "127.0.0.1:0"}) as cluster:
        client = HttpConsoleClient(cluster.server(0).http_end_points[0].port)
        await cluster.create("orders", 1)
        peer = BrokerClient(cluster.server(0).end_points[0], HOSTILE, 20_000)
        await ask(peer, "orders")
        for _ in range(5):
            await peer.send(FetchRequest(max_wait_ms=0), highest_version=11)

        shown = await client.get("/connections?q=me")
        assert "1 connection" in shown.text
        assert "now" in shown.text
        assert "Fetch 11" in shown.text
        assert "<b>" not in shown.html
        assert "\x1b" not in shown.html
        (row,) = (await client.get("/api/v1/connections?q=31m")).value["rows"]
        assert row["asker"]["client_id"] == HOSTILE
        assert row["requests"] >= 5
        await client.get("/overview")
        assert "kbroker-console" in (await client.get("/connections")).text
        assert row["idle_ms"] < 5_000
        assert not is_followed(cluster)

        page = "/requests?client_id=*me&topic=orders"
        assert "None yet" in (await client.get(page)).text
        assert is_followed(cluster)
        await ask(peer, "orders")
        await ask(peer, "nowhere")
        shown = await client.get(page)
        assert "1 request since this is looked at" in shown.text
        assert "Metadata 1" in shown.text
        assert "'orders'" in shown.text
        assert 'data-refresh="2"' in shown.html
        assert "data-refresh" not in (await client.get(f"{page}&paused=1")).html
        assert "<b>" not in shown.html
        await ask_wrongly(client)

        path = "/api/v1/requests?code=UNKNOWN*&wait_ms=10000"
        followed = asyncio.create_task(client.get(path))
        while not followed.done():
            await ask(peer, "nowhere")
        row = (await followed).value["requests"][0]
        assert (row["client_id"], row["topics"]) == (HOSTILE, ["nowhere"])

        await look_at_histories(cluster, client)
        charts = (await client.get("/api/v1/charts")).value["charts"]
        assert [each["name"] for each in charts] == [
            "messages_in", "bytes_in", "bytes_out", "requests", "connections",
        ]  # fmt: skip
        assert charts[-1]["points"][-1]["value"] >= 1
        shown = await client.get("/charts")
        assert "Connections to this broker: " in shown.text
        assert "<svg" in shown.html
        peer.close()


async def look_at_histories(cluster: Cluster, client: HttpConsoleClient) -> None:
    assert "append_refused" not in (await client.get("/topics/orders/history")).text
    await cluster.produce(0, "orders", 7, b"there is no such partition")
    of_one = await client.get("/topics/orders/history?partition=7")
    assert "append_refused" in of_one.text
    assert "append_refused" in (await client.get("/events")).text
    partitions = (await client.get("/topics/orders")).links_of("table")
    assert "/topics/orders/history?partition=0" in partitions
