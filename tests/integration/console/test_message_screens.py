"""Messages through the pages of the console, and through its JSON API: found, opened, followed,
written.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from html import unescape
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.message import message
from kbroker.console.producing import NewMessage, produce
from kbroker.console.topic_changes import NewTopic, create_topic
from kbroker.console.web.app import ConsoleApplication
from kbroker.console.web.console import ConsoleOptions
from kbroker.model import TopicPartition as Place
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Record
from tests.fakes.running.console_client import Answered, ConsoleClient
from tests.fakes.running.forked_broker import Broker
from tests.fakes.running.waiting import until

HOSTILE = '<script>alert(1)</script>"\u202e\u0085'
NOW_MS = 1_795_257_570_000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker(settings={"log.retention.ms": "-1"}) as made:
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


async def make(cluster: ConsoledCluster, name: str, partitions: int) -> None:
    await create_topic(cluster, NewTopic(name=name, partitions=partitions, settings={}))


def write(bootstrap: str, topic: str, count: int, value: str = "v{}", partition: int = 0) -> None:
    """Write records with keys k0, k1 ... and such values."""
    with closing(ClusterLinks(bootstrap)) as links:
        view = links.ready_topic(topic)
        assert view is not None
        sender = RecordSender(links, view, SendOptions(headers=None))
        for first in range(0, count, 10_000):
            numbers = range(first, min(first + 10_000, count))
            bodies = [
                whole_body_of(Record(0, 0, f"k{n}".encode(), value.format(n).encode(), ()))
                for n in numbers
            ]
            sender.put(partition, bodies, NOW_MS, [NOW_MS + n for n in numbers])
            sender.complete(NOW_MS)
            sender.send_until(lambda: sender.is_idle)
        assert sender.refusal is None


def filled_in(page: Answered) -> dict[str, str]:
    """The fields of the form of a page, as a browser would send them."""
    found = {}
    for name, value in re.findall(r'<input[^>]* name="([^"]*)" value="([^"]*)"', page.html):
        found[name] = unescape(value)
    for name, value in re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>([^<]*)<', page.html):
        found[name] = unescape(value).removeprefix("\n")
    for name, options in re.findall(r'<select[^>]* name="([^"]*)"[^>]*>(.*?)</select>', page.html):
        chosen = re.findall(r'value="([^"]*)" selected', options)
        found[name] = chosen[0] if chosen else re.findall(r'value="([^"]*)"', options)[0]
    return found


async def test_messages_are_found_opened_and_kept_as_files(
    client: ConsoleClient, cluster: ConsoledCluster, bootstrap: str
) -> None:
    await make(cluster, "orders", 2)
    write(bootstrap, "orders", 120, '{{"price": {}}}')
    large = json.dumps([{"number": n, "name": "x" * 50} for n in range(6_500)]).encode()
    for value in (HOSTILE.encode(), b"\x1b[31m\xff", b"x" * 1_000_000, large):
        await produce(
            cluster,
            NewMessage(topic="orders", key=b"<b>", value=value, headers=[("<i>", b"\xff")],
                       partition=1),
        )  # fmt: skip

    topic = await client.get("/topics/orders")
    assert "/topics/orders/messages?partitions=1" in topic.links_of("table")
    newest = await client.get("/topics/orders/messages?rows=5")
    assert "5 messages shown" in newest.text
    assert newest.links_of("tbody")[-1] == "/topics/orders/messages/1/3"
    assert not newest.has_inline_code()
    for inert in ("<script>alert", "\x1b", "\u202e", "\u0085", "<b>", "<i>"):
        assert inert not in newest.html
    assert len(newest.html) < 30_000

    place = "/topics/orders/messages?partitions=0"
    found = await client.get(f"{place}&from=10&rows=3&json=%24.price+%3E%3D+15&key=k")
    assert "/topics/orders/messages/0/15" in found.links_of("tbody")
    assert "3 messages shown; 5 others do not fit" in found.text
    assert "--from 10 --partition 0 --output jsonl" in found.text
    assert "# without the filter" in found.text
    on = await client.get(next(each for each in found.links_of("main") if "starts=0%3A18" in each))
    assert "/topics/orders/messages/0/18" in on.links_of("tbody")
    last = await client.get(f"{place}&rows=10")
    before = await client.get(next(each for each in last.links_of("main") if "to=110" in each))
    assert before.links_of("tbody")[0] == "/topics/orders/messages/0/100"
    kept = await client.get("/topics/orders/messages.jsonl?partitions=0&from=7&to=9")
    assert [json.loads(line)["value"]["text"] for line in kept.body.splitlines()] == [
        '{"price": 7}',
        '{"price": 8}',
    ]
    assert 'filename="orders.jsonl"' in kept.headers["content-disposition"]
    for wrong, words in (
        ("from=soon", "from: 'soon' is none of"),
        ("json=price", "does not begin with $"),
        ("partitions=9", "no such partition"),
        ("key_decoder=avro:/etc/passwd", "is none of auto"),
    ):
        refused = await client.get(f"/topics/orders/messages?{wrong}")
        assert refused.status in (400, 404)
        assert words in refused.text

    opened = await client.get("/topics/orders/messages/1/3")
    assert "The beginning of" in opened.text
    assert "&quot;number&quot;: 0,\n" in opened.html
    assert len(opened.html) < 200_000
    more = await client.get("/topics/orders/messages/1/3?more=1")
    assert "The beginning" not in more.text
    assert (await client.get("/topics/orders/messages/1/3/value")).body == large
    for offset, shown in ((0, "alert(1)"), (1, "1b5b33316dff"), (2, "xxx")):
        page = await client.get(f"/topics/orders/messages/1/{offset}")
        assert shown in page.text
        assert "<script>alert" not in page.html
        assert page.html.count("<b>") == page.html.count("<i>") == 0
    assert (await client.get("/topics/orders/messages/1/4")).status == 404
    as_hex = await client.get("/topics/orders/messages/0/5?value_decoder=hex")
    assert b'{"price": 5}'.hex() in as_hex.text

    # The same for programs.
    rows = (await client.get("/api/v1/topics/orders/messages?from=-2&partitions=0")).value["rows"]
    assert [row["offset"] for row in rows] == [118, 119]
    one = (await client.get("/api/v1/topics/orders/messages/0/5")).value
    assert (one["value"]["text"], one["value"]["kind"]) == ('{"price": 5}', "json")


async def test_a_tail_shows_or_counts_every_message(
    client: ConsoleClient, cluster: ConsoledCluster, bootstrap: str
) -> None:
    await make(cluster, "busy", 2)
    write(bootstrap, "busy", 5)
    page = await client.get("/topics/busy/tail?partitions=0,1")
    (address,) = re.findall(r'data-tail="([^"]*)"', page.html)
    (starts,) = re.findall(r'data-starts="([^"]*)"', page.html)
    assert starts == "0:5,1:0"
    assert page.links_of("tbody")[0] == "/topics/busy/messages/0/4"

    async def step(at: str, more: str = "") -> Any:
        return (await client.get(f"{unescape(address)}&starts={at}&rows=100{more}")).value

    nothing = await step(starts)
    assert (nothing["html"], nothing["starts"]) == ("", starts)
    write(bootstrap, "busy", 30)
    write(bootstrap, "busy", 15_000, partition=1)
    news = await step(starts)
    assert (news["starts"], news["gaps"]) == ("0:35,1:15000", [])
    assert news["shown"] == news["html"].count("<tr>") == 100
    assert news["skipped"] == 30 + 15_000 - 100
    assert "/topics/busy/messages/1/14999" in news["html"]

    filtered = await step(starts, "&text=99")
    fitting = sum("99" in f"k{n}" for n in range(30)) + sum("99" in f"{n}" for n in range(15_000))
    assert filtered["shown"] + filtered["skipped"] == fitting
    assert filtered["unfit"] == 30 + 15_000 - fitting

    # Deleted meanwhile: counted as well, and a start beyond the end is named.
    trim = {"before": "10", "partitions": [1], "confirmed": True}
    assert (await client.call("POST", "/api/v1/topics/busy/trim", trim)).status == 200
    assert (await step("0:35,1:0"))["skipped"] == 15_000 - 100
    assert "busy-0 ends at offset 35" in (await step("0:99,1:15000"))["gaps"][0]

    begun = (await client.get("/api/v1/topics/busy/tail")).value
    assert (begun["rows"], begun["next_offsets"]) == ([], {"0": 35, "1": 15_000})
    write(bootstrap, "busy", 1)
    new = (await client.get("/api/v1/topics/busy/tail?starts=0:35,1:15000")).value
    assert ([row["offset"] for row in new["rows"]], new["skipped"]) == ([35], 0)


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"k", b"\nline\n\n", (("a", b"1"), ("b", None), ("a", b""))),
        (None, b"", ()),
        (b"", None, ()),
        (b"\xff\0", HOSTILE.encode(), (("a", b"\xff"), ("b", b"x"))),
        (b"line\r\n", b"\t{}", (("a", b"1\n2"),)),
    ],
)
async def test_a_message_is_written_again_as_it_was(
    client: ConsoleClient,
    cluster: ConsoledCluster,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    await make(cluster, "again", 2)
    new = NewMessage(topic="again", key=key, value=value, headers=headers, partition=1)
    offset = (await produce(cluster, new)).offset
    assert offset is not None

    form = await client.get(f"/topics/again/produce?again=1:{offset}")
    shown = await client.followed(await client.post("/topics/again/produce", filled_in(form)))

    assert f"written: again, partition 1, offset {offset + 1}" in shown.text
    one = await message_at(cluster, "again", 1, offset + 1)
    assert (one.key, one.value, one.headers) == (key, value, headers)


async def message_at(cluster: ConsoledCluster, topic: str, partition: int, offset: int) -> Record:
    return (await message(cluster, Place(topic, partition), offset)).record


async def test_messages_are_entered_or_refused_with_what_was_entered(
    client: ConsoleClient, cluster: ConsoledCluster
) -> None:
    await make(cluster, "entered", 1)
    assert filled_in(await client.get("/topics/entered/produce"))["key_form"] == "or-none"
    for fields, words in (
        ({"value": "{", "value_form": "json"}, "the value: it is not JSON"),
        ({"value": "x", "value_form": "null"}, "the value is to be null"),
        ({"headers": "=1"}, "'=1' names no header"),
        ({"value": "x", "partition": "7"}, "no such partition"),
        ({"value": "x", "time": "soon"}, "the time: 'soon'"),
    ):
        refused = await client.post("/topics/entered/produce", fields)
        assert refused.status in (404, 409), refused.text
        assert words in refused.text
        assert filled_in(refused)["value"] == fields.get("value", "")
    assert (await client.get("/topics/nowhere/produce")).status == 404

    fields = {"key": "<k>", "value": "\r\n 7", "time": "1000", "headers": "a=1=2\r\nb"}
    shown = await client.followed(await client.post("/topics/entered/produce", fields))
    assert "1970-01-01 00:00:01.000Z" in shown.text
    tombstone = await client.get("/topics/entered/produce?again=0:0&tombstone=1")
    assert (filled_in(tombstone)["key"], filled_in(tombstone)["value_form"]) == ("<k>", "null")
    shown = await client.followed(
        await client.post("/topics/entered/produce", filled_in(tombstone))
    )
    one, two = [await message_at(cluster, "entered", 0, offset) for offset in (0, 1)]
    assert (one.key, one.value, one.timestamp) == (b"<k>", b"\n 7", 1000)
    assert one.headers == (("a", b"1=2"), ("b", None))
    assert (two.key, two.value, two.headers) == (b"<k>", None, ())

    made = await client.call(
        "POST",
        "/api/v1/topics/entered/messages",
        {"value": "ff00", "value_form": "hex", "headers": [{"name": "h", "value": "v"}]},
    )
    assert made.value == {"place": {"topic": "entered", "partition": 0}, "offset": 2}
    wrong = {"value": "x", "value_form": "int32"}
    refused = await client.call("POST", "/api/v1/topics/entered/messages", wrong)
    assert (refused.status, "the value: it is not a whole number" in refused.value["error"]) == (
        400,
        True,
    )


async def test_a_console_without_messages_shows_none_and_one_that_is_read_only_writes_none(
    bootstrap: str, cluster: ConsoledCluster
) -> None:
    await make(cluster, "closed", 1)
    await produce(cluster, NewMessage(topic="closed", key=b"k", value=b"secret"))
    paths = ("messages", "messages.jsonl", "messages/0/0", "messages/0/0/value", "tail",
             "tail/rows", "produce?again=0:0")  # fmt: skip
    options = ConsoleOptions(no_messages=True)
    with closing(ConsoleApplication(ConsoledCluster(bootstrap), options)) as made:
        client = ConsoleClient(made)
        for path in paths:
            assert (await client.get(f"/topics/closed/{path}")).status == 403
        for path in ("messages", "messages/0/0", "tail"):
            assert (await client.get(f"/api/v1/topics/closed/{path}")).status == 403
        frame = await client.get("/topics/closed")
        assert "/topics/closed/tail" not in frame.links_of("main")
        written = await client.post("/topics/closed/produce", {"value": "x"})
        assert "written: closed" in (await client.followed(written)).text

    with closing(
        ConsoleApplication(ConsoledCluster(bootstrap), ConsoleOptions(read_only=True))
    ) as made:
        client = ConsoleClient(made)
        assert (await client.get("/topics/closed/produce")).status == 403
        assert (await client.post("/topics/closed/produce", {"value": "x"})).status == 403
        refused = await client.call("POST", "/api/v1/topics/closed/messages", {"value": "x"})
        assert refused.status == 403
        for path in ("/topics/closed", "/topics/closed/messages/0/0"):
            shown = await client.get(path)
            assert shown.status == 200
            assert not [each for each in shown.links_of("main") if re.search(r"/produce\b", each)]


async def test_records_of_kafkas_own_topics_are_read(
    client: ConsoleClient, cluster: ConsoledCluster, bootstrap: str
) -> None:
    await make(cluster, "committed", 1)

    def commit() -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, group_id="readers", enable_auto_commit=False
        )
        consumer.commit({TopicPartition("committed", 0): OffsetAndMetadata(0, "note", -1)})
        consumer.close()

    await asyncio.to_thread(commit)
    shown = await client.get("/topics/__consumer_offsets/messages?key=readers")
    assert '"group":"readers"' in shown.text.replace(" ", "")
    assert "note" in shown.text


async def test_a_search_is_given_up_as_its_browser_goes(
    client: ConsoleClient, cluster: ConsoledCluster, bootstrap: str
) -> None:
    await make(cluster, "long", 1)
    write(bootstrap, "long", 30_000)
    task = asyncio.ensure_future(client.get("/topics/long/messages?from=start&text=nowhere"))
    await until(lambda: cluster.at_work == 1)

    task.cancel()

    await until(lambda: cluster.at_work == 0)
    whole = await client.get("/topics/long/messages?from=start&text=nowhere")
    assert "0 messages shown; 30,000 others do not fit" in whole.text
