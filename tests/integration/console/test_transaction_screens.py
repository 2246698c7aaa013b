"""Transactions that are open, that hang, and that are aborted, in pages of the console and by its JSON API; and
charts, for a broker of which nothing but the protocol is known.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing

import pytest

from compat_tests.clients.hanging_transactions import UNVERIFIED, hang
from compat_tests.wire.wire_client import WireClient
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.transactional_producer import TransactionalProducer, WriterIdentity
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.topic_changes import NewTopic, create_topic
from kbroker.console.web.app import ConsoleApplication
from kbroker.console.web.console import ConsoleOptions
from kbroker.model import TopicPartition
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Record
from tests.fakes.running.console_client import ConsoleClient
from tests.fakes.running.forked_broker import Broker

SETTING, _, VALUE = UNVERIFIED.partition("=")
ID = "t/<b>"
PAGE = "/transactions/t%2F%3Cb%3E"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker(settings={SETTING: VALUE}) as made:
        yield made.bootstrap


@pytest.fixture
async def client(bootstrap: str) -> AsyncIterator[ConsoleClient]:
    cluster = ConsoledCluster(bootstrap)
    await create_topic(cluster, NewTopic(name="orders", partitions=1, settings={}))
    with closing(ConsoleApplication(cluster)) as made:
        yield ConsoleClient(made)


def begin(links: ClusterLinks, transactional_id: str) -> None:
    """Leave a transaction open."""
    view = links.ready_topic("orders")
    assert view is not None
    place = TopicPartition("orders", 0)
    identity = WriterIdentity(
        transactional_id=transactional_id, group="g", partition=place, timeout_ms=60_000
    )
    writer = TransactionalProducer(links, identity)
    writer.add_partitions([place])
    sender = writer.sender(view)
    now_ms = int(time.time() * 1000)
    sender.put(0, [whole_body_of(Record(0, now_ms, None, b"open", ()))], now_ms)
    sender.complete(now_ms)
    sender.send_until(lambda: sender.is_idle)


async def test_transactions_are_listed_found_hanging_and_aborted(
    client: ConsoleClient, bootstrap: str
) -> None:
    assert "Nobody has used one." in (await client.get("/transactions")).text
    missing = await client.get("/transactions/none")
    assert (missing.status, "no such transactional id: none" in missing.text) == (404, True)
    for long in ("/transactions/", "/topics/", "/groups/"):
        assert (await client.get(long + "x" * 33_000)).status == 404
    sent = {"topic": "x" * 33_000, "partition": 0, "start_offset": 1}
    long_topic = await client.call("POST", "/api/v1/hanging-transactions/abort", sent)
    assert (long_topic.status, "so long a name" in long_topic.value["error"]) == (404, True)
    with closing(ClusterLinks(bootstrap)) as links:
        begin(links, ID)
    with closing(WireClient(bootstrap)) as wire:
        hang(wire, "orders", 4711, 1)

    listed = await client.get("/transactions?q=T%2F&open=1")
    assert "Ongoing" in listed.text
    assert "orders-0" in listed.text
    assert "<b>" not in listed.html
    (row,) = (await client.get("/api/v1/transactions?open=true")).value["page"]["rows"]
    assert (row["transactional_id"], row["state"]) == (ID, "Ongoing")
    one = await client.get(PAGE)
    assert "State Ongoing" in one.text
    assert f"{PAGE}/abort" in one.html
    producers = await client.get("/topics/orders/producers")
    assert "4711" in producers.text

    hanging = await client.get("/hanging-transactions")
    assert "1 hanging transaction in" in hanging.text
    assert "Coordinators will end 1 other open transaction." in hanging.text
    owned = {"topic": "orders", "partition": "0", "start": "0"}
    refused = await client.post("/hanging-transactions", owned)
    assert (refused.status, "does not hang" in refused.text) == (409, True)
    body = {"topic": "orders", "partition": 0, "start_offset": 1}
    done = await client.call("POST", "/api/v1/hanging-transactions/abort", body)
    assert done.value["said"] == ["orders-0: transaction of producer 4711 aborted"]
    again = await client.post("/hanging-transactions", {**owned, "start": "1"})
    assert (again.status, "no open transaction begins at 1" in again.text) == (409, True)
    found = (await client.get("/api/v1/hanging-transactions?topic=orders")).value
    assert (found["hanging"], found["owned"], found["partitions"]) == ([], 1, 1)

    assert "Abort the transaction" in (await client.get(f"{PAGE}/abort")).text
    shown = await client.followed(await client.post(f"{PAGE}/abort", {}))
    assert "is aborted" in shown.text
    assert "State CompleteAbort" in shown.text
    assert "No transaction is open" in (await client.get(f"{PAGE}/abort")).text

    options = ConsoleOptions(read_only=True)
    with closing(ConsoleApplication(ConsoledCluster(bootstrap), options)) as made:
        reader = ConsoleClient(made)
        assert (await reader.post(f"{PAGE}/abort", {})).status == 403
        assert (await reader.post("/hanging-transactions", owned)).status == 403
        assert (await reader.get("/hanging-transactions")).status == 200


async def test_charts_of_any_broker_come_from_its_offsets_and_name_the_gap(
    client: ConsoleClient,
) -> None:
    shown = await client.get("/charts")
    assert "Offsets written: not known now" in shown.text  # a rate takes two samples
    assert "not known here" in shown.text
    assert not shown.has_inline_code()
    assert (await client.get("/topics/nowhere/charts")).status == 404
    assert "Offsets written" in (await client.get("/topics/orders/charts")).text
    assert (await client.get("/groups/nobody/charts")).status == 404
    value = (await client.get("/api/v1/topics/orders/charts")).value
    assert [each["name"] for each in value["charts"]] == ["ends"]
    for path in ("/connections", "/requests", "/events", "/groups/g/history"):
        assert "not known here" in (await client.get(path)).text
    assert (await client.get("/api/v1/events")).status == 404
