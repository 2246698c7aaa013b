"""A topic's life through the pages of the console, and through its JSON API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.producing import NewMessage, produce
from kbroker.console.web.app import ConsoleApplication
from tests.fakes.running.console_client import ConsoleClient
from tests.fakes.running.forked_broker import Broker


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as made:
        yield made.bootstrap


@pytest.fixture
async def cluster(bootstrap: str) -> AsyncIterator[ConsoledCluster]:
    made = ConsoledCluster(bootstrap)
    yield made
    made.close()


@pytest.fixture
async def client(cluster: ConsoledCluster) -> AsyncIterator[ConsoleClient]:
    with closing(ConsoleApplication(cluster)) as made:
        yield ConsoleClient(made)


async def test_a_topic_is_made_found_changed_and_deleted_by_forms(
    client: ConsoleClient, cluster: ConsoledCluster
) -> None:
    assert "Create the topic" in (await client.get("/new-topic")).text
    wrong = await client.post("/new-topic", {"name": "or/ders", "settings": "a\nretention.ms=5"})
    assert (wrong.status, "'a' is not NAME=VALUE" in wrong.text) == (409, True)
    assert 'value="or/ders"' in wrong.html
    refused = await client.post("/new-topic", {"name": "or/ders"})
    assert (refused.status, "or/ders" in refused.text) == (409, True)
    made = await client.post(
        "/new-topic",
        {"name": "orders", "partitions": "2", "settings": "max.message.bytes = 5000\r\n\r\n"},
    )
    shown = await client.followed(made)
    assert "orders: created" in shown.text
    assert "orders: created" not in (await client.get(made.location)).text

    listed = await client.get("/topics?q=ORD")
    assert "/topics/orders" in listed.links_of("table")
    assert "1 topic" in listed.text
    assert "No topic of this name" in (await client.get("/topics?q=xyz")).text

    settings = await client.get("/topics/orders/settings?name=max.message.bytes")
    assert "max.message.bytes 5000 topic default: 1048588" in settings.text
    assert 'value="5000"' in settings.html
    changed = await client.post(
        "/topics/orders/settings", {"name": "max.message.bytes", "value": "-2", "action": "set"}
    )
    assert (changed.status, "max.message.bytes" in changed.text) == (409, True)
    reset = {"name": "max.message.bytes", "value": "", "action": "reset"}
    shown = await client.followed(await client.post("/topics/orders/settings", reset))
    assert "5000" not in shown.text

    assert 'value="3"' in (await client.get("/topics/orders/grow")).html
    assert (await client.post("/topics/orders/grow", {"count": "1"})).status == 409
    shown = await client.followed(await client.post("/topics/orders/grow", {"count": "3"}))
    assert "Partitions 3" in shown.text

    for _ in range(4):
        await produce(cluster, NewMessage(topic="orders", value=b"v", partition=1))
    preview = await client.get("/topics/orders/trim?before=3&partitions=1")
    assert "Delete 3 offsets" in preview.text
    assert "Records 4" in (await client.get("/topics/orders")).text
    whole = await client.get("/topics/orders/trim?before=end")
    await produce(cluster, NewMessage(topic="orders", value=b"later", partition=1))
    fields = {"before": "end", "partitions": ""}
    unseen = await client.post("/topics/orders/trim", fields)
    assert (unseen.status, "look first at what would go" in unseen.text) == (400, True)
    fields = whole.hidden_fields()
    shown = await client.followed(await client.post("/topics/orders/trim", fields))
    assert "orders: 4 offsets deleted" in shown.text
    assert "Records 1" in shown.text
    assert (await client.get("/topics/orders/trim?before=soon")).status == 409

    assert (await client.post("/topics/orders/delete", {"name": "order"})).status == 409
    gone = await client.post("/topics/orders/delete", {"name": "orders"})
    assert "orders: deleted" in (await client.followed(gone)).text
    assert (await client.get("/topics/orders")).status == 404


async def test_a_topic_is_made_found_changed_and_deleted_by_programs(
    client: ConsoleClient,
) -> None:
    made = await client.call(
        "POST", "/api/v1/topics", {"name": "bills", "settings": {"retention.ms": "1000"}}
    )
    assert (made.status, made.value["refused"]) == (200, [])
    again = await client.call("POST", "/api/v1/topics", {"name": "bills"})
    assert (again.status, "bills" in again.value["error"]) == (409, True)
    odd = await client.call("POST", "/api/v1/topics", {"name": "x", "partition": 1})
    assert (odd.status, "partition" in odd.value["error"]) == (400, True)

    (row,) = (await client.get("/api/v1/topics?q=bills&rows=1")).value["page"]["rows"]
    assert (row["name"], row["partitions"], row["records"]) == ("bills", 1, 0)
    unknown = await client.get("/api/v1/topics?search=bills")
    assert (unknown.status, "no such parameter" in unknown.value["error"]) == (400, True)

    sets = {"sets": {"retention.ms": "2000"}, "deletes": ["cleanup.policy"]}
    await client.call("POST", "/api/v1/topics/bills/settings", sets)
    await client.call("POST", "/api/v1/topics/bills/partitions", {"count": 4})
    found = (await client.get("/api/v1/topics/bills")).value
    assert found["partition_count"] == 4
    assert len(found["topic_id"]) == 22  # base64, as Kafka's own tools print it
    (retention,) = (each for each in found["settings"] if each["name"] == "retention.ms")
    assert (retention["value"], retention["origin"]) == ("2000", "topic")
    trimmed = await client.call("POST", "/api/v1/topics/bills/trim", {"before": "end"})
    assert [each["deleted"] for each in trimmed.value["partitions"]] == [0, 0, 0, 0]
    assert trimmed.value["is_done"] is False  # it was not confirmed
    wanted = {"before": "end", "confirmed": True, "at_most": {"x": 1}}
    assert (await client.call("POST", "/api/v1/topics/bills/trim", wanted)).status == 400
    seen = wanted | {"at_most": {"1": 5}}
    assert (await client.call("POST", "/api/v1/topics/bills/trim", seen)).value["is_done"] is True
    assert (await client.get("/api/v1/topics/bills/groups")).value == {"groups": [], "gaps": []}

    assert (await client.call("DELETE", "/api/v1/topics/bills")).status == 200
    assert (await client.call("DELETE", "/api/v1/topics/bills")).status == 404
