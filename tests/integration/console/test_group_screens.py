"""A group's life through the pages of the console that a broker serves, and through its JSON API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest

from compat_tests.running.apache_kafka import free_port
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.web.app import ConsoleApplication
from tests.fakes.running.console_client import ConsoleClient, HttpConsoleClient
from tests.fakes.running.forked_broker import Broker
from tests.integration.group_client import GroupClient
from tests.integration.local_cluster_client import Cluster, running

HOSTILE = "r/<b>\x1b[31m\u202e&"
PLACE = f"/groups/{quote(HOSTILE, safe='')}"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path, brokers=1, **{"kbroker.http.listeners": "127.0.0.1:0"}) as made:
        await made.create("orders", 2)
        for value in (b"a", b"b", b"c", b"d"):
            await made.produce(0, "orders", 1, value)
        yield made


@pytest.fixture
def client(cluster: Cluster) -> HttpConsoleClient:
    return HttpConsoleClient(cluster.server(0).http_end_points[0].port)


async def test_a_group_is_reset_after_a_preview_found_and_deleted(
    client: HttpConsoleClient,
) -> None:
    assert "There is no group." in (await client.get("/groups")).text
    gone = await client.get(PLACE)
    assert (gone.status, "data-refresh" in gone.html) == (404, True)  # it may come back
    wrong = await client.get(f"{PLACE}/reset?to=soon&topics=orders")
    assert "is none of: earliest" in wrong.text

    preview = await client.get(f"{PLACE}/reset?to=%2B0&topics=orders")
    assert "Reset" not in preview.text.partition("What would change")[2]  # no offset to add to
    preview = await client.get(f"{PLACE}/reset?to=1&topics=orders")
    assert "Reset 2 partitions" in preview.text
    assert "it would be made" in preview.text
    await client.followed(await client.post(f"{PLACE}/reset", preview.hidden_fields()))
    shown = await client.get(PLACE)
    assert "Lag 3" in shown.text
    assert "orders 1 1 4 3 nobody" in shown.text
    for sign in ("<b>", "\x1b", "\u202e"):
        assert sign not in shown.html
    (row,) = (await client.get("/api/v1/groups?q=R/")).value["page"]["rows"]
    assert (row["group"], row["state"], row["lag"]) == (HOSTILE, "Empty", 3)
    listed = await client.get("/groups?q=R%2F")
    assert [unescape(each) for each in listed.links_of("table")] == [PLACE]
    reading = await client.get("/topics/orders/groups")
    assert PLACE in reading.links_of("table")

    of_one = await client.get(f"{PLACE}/reset?to=latest&topics=orders&partitions=1")
    assert "Reset 1 partition" in of_one.text
    none = await client.get(f"{PLACE}/reset?to=latest&partitions=1")
    assert (none.status, "partitions need one topic" in none.text) == (400, True)
    late = await client.post(f"{PLACE}/reset", {"to": "1", "offsets": "orders 1 77"})
    assert "offset 77 is not there any more" in (await client.followed(late)).text
    assert (await client.post(f"{PLACE}/reset", {"offsets": "orders 1"})).status == 400

    body = {"to": "latest", "topics": {"orders": [1]}}
    planned = (await client.call("POST", f"/api/v1{PLACE}/reset", body)).value
    assert (planned["is_done"], planned["planned"]["offsets"][0]["new_offset"]) == (False, 4)
    assert "Lag 3" in (await client.get(PLACE)).text
    confirmed = {**body, "confirmed": True}
    await client.call("POST", "/api/v1/groups/../reset", confirmed)
    reading = await client.get("/topics/orders/groups")
    assert "'..'" in reading.text  # no browser can ask for its page
    assert "/groups/.." not in reading.links_of("table")
    await client.call("DELETE", "/api/v1/groups/..")
    done = (await client.call("POST", f"/api/v1{PLACE}/reset", confirmed)).value
    assert (done["is_done"], done["refused"]) == (True, [])
    assert (await client.get(f"/api/v1{PLACE}")).value["lag"] == 0

    asked = await client.get(f"{PLACE}/delete")
    assert "goes with its offsets of 2 partitions" in asked.text
    shown = await client.followed(await client.post(f"{PLACE}/delete", {}))
    assert "There is no group." in shown.text
    assert (await client.call("DELETE", f"/api/v1{PLACE}")).status == 404
    again = await client.post(f"{PLACE}/delete", {})
    assert (again.status, "no such group" in again.text) == (404, True)


async def test_a_group_with_members_says_what_happened_to_it_and_is_not_changed(
    client: HttpConsoleClient, cluster: Cluster
) -> None:
    await cluster.coordinator(0, "busy")
    member = GroupClient(cluster, "busy")
    await member.stable(reason="<i>deployed</i>")

    members = await client.get("/groups/busy/members")
    assert "Members 1" in members.text
    assert "test" in members.text
    history = await client.get("/groups/busy/history")
    assert "its reason: '<i>deployed</i>'" in history.text.replace("\\", "")
    assert "<i>" not in history.html
    events = (await client.get("/api/v1/groups/busy/events")).value["events"]
    assert [each["cause"] for each in events] == ["new_member", "assigned"]
    assert "'busy'" in (await client.get("/events")).text

    refused = await client.get("/groups/busy/reset?to=earliest&topics=orders")
    assert "stop it first" in refused.text
    assert "Reset 2 partitions" not in refused.text
    forced = await client.post("/groups/busy/reset", {"to": "0", "offsets": "orders 0 0"})
    assert (forced.status, "was not reset" in forced.text) == (409, True)
    assert "It has 1 member: stop them first." in (await client.get("/groups/busy/delete")).text
    kept = await client.post("/groups/busy/delete", {})
    assert (kept.status, "it has members" in kept.text) == (409, True)


async def test_pages_of_a_group_say_that_its_broker_is_away_and_come_back_with_it(
    tmp_path: Path,
) -> None:
    broker = Broker(port=free_port(), data=tmp_path)
    broker.start()
    with closing(ConsoleApplication(ConsoledCluster(broker.bootstrap))) as made:
        client = ConsoleClient(made)
        await client.call("POST", "/api/v1/topics", {"name": "orders", "partitions": 1})
        body = {"to": "earliest", "topics": {"orders": []}, "confirmed": True}
        await client.call("POST", "/api/v1/groups/readers/reset", body)
        pages = "/groups", "/groups/readers", "/groups/readers/charts", "/transactions"
        assert [(await client.get(page)).status for page in pages] == [200] * 4

        broker.stop()
        for page in ("/groups", "/groups/readers"):
            away = await client.get(page)
            assert (away.status, "data-refresh" in away.html) == (503, True), away.text
        kept = await client.get("/groups/readers/charts")
        assert (kept.status, "Lag: 0 now" in kept.text) == (200, True)  # up to its last point

        broker.start()
        assert [(await client.get(page)).status for page in pages] == [200] * 4
    broker.stop()
