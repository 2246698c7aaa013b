"""The questions of a console, answered by kbroker and by Apache Kafka alike."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.structs import TopicPartition as LibraryPartition

from compat_tests.running import apache_kafka
from compat_tests.running.prerequisites import require_program
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.record_places import END, START, Kind, Place
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.client.setting_changes import SettingChanges
from kbroker.client.transactional_producer import TransactionalProducer, WriterIdentity
from kbroker.console import groups as groups_of
from kbroker.console.broker import broker, configure_broker
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.end_offsets import sum_of_ends
from kbroker.console.hanging_transactions import abort_hanging, hanging_transactions
from kbroker.console.message import message
from kbroker.console.message_filter import message_filter
from kbroker.console.messages import Ended, FoundMessages, MessageSearch, messages
from kbroker.console.new_messages import new_messages
from kbroker.console.overview import overview
from kbroker.console.pages import Wanted
from kbroker.console.producing import NewMessage, produce
from kbroker.console.topic import groups_of_topic, topic
from kbroker.console.topic_changes import (
    NewTopic,
    Trim,
    configure_topic,
    create_topic,
    delete_topic,
    grow_topic,
    trim_topic,
)
from kbroker.console.topic_lookup import NotFoundError
from kbroker.console.topics import topics
from kbroker.console.transactions import abort, producers, transaction, transactions
from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Record
from tests.fakes.running.forked_broker import Broker
from tests.fakes.running.waiting import until

NOW_MS = 1_795_257_570_000
PAUSED = {"log.retention.ms": "-1"}


@pytest.fixture(
    scope="module", params=["kbroker", pytest.param("apache", marks=[pytest.mark.java])]
)
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kbroker":
        with Broker(settings=PAUSED) as made:
            yield made.bootstrap
        return
    require_program("java", "install a Java runtime")
    with apache_kafka.broker(settings=PAUSED) as (address, _):
        yield address


@pytest.fixture
async def cluster(bootstrap: str) -> AsyncIterator[ConsoledCluster]:
    made = ConsoledCluster(bootstrap)
    yield made
    made.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name of a topic that no other test of the module has."""
    found = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return found[-100:].strip("-")


async def make(cluster: ConsoledCluster, name: str, partitions: int = 2, **settings: str) -> None:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    done = await create_topic(cluster, NewTopic(name=name, partitions=partitions, settings=named))
    assert done.refused == ()


def write(bootstrap: str, topic: str, values: list[bytes | None], partition: int = 0) -> None:
    """Write records with keys k0, k1 ..., one ms after the other from NOW_MS on."""
    with closing(ClusterLinks(bootstrap)) as links:
        view = links.ready_topic(topic)
        assert view is not None
        sender = RecordSender(links, view, SendOptions(headers=None))
        bodies = [
            whole_body_of(Record(0, 0, f"k{n}".encode(), value, ()))
            for n, value in enumerate(values)
        ]
        times = [NOW_MS + n for n in range(len(values))]
        sender.put(partition, bodies, NOW_MS, times)
        sender.complete(NOW_MS)
        sender.send_until(lambda: sender.is_idle)
        assert sender.refusal is None


def texts(found: FoundMessages) -> list[str]:
    return [row.value.text for row in found.rows]


async def test_the_overview_names_brokers_controller_and_versions(
    cluster: ConsoledCluster,
) -> None:
    found = await overview(cluster)

    (broker,) = found.brokers
    assert broker.is_controller
    assert found.controller_id == broker.broker_id
    assert found.cluster_id
    assert broker.apis is not None
    assert broker.apis["Fetch"][1] >= 12
    assert found.level is not None
    assert found.under_replicated.count == found.leaderless.count == 0
    assert found.under_min_isr is not None
    assert found.under_min_isr.count == 0
    assert found.reassigning is not None
    assert found.gaps == ()


async def test_a_broker_has_settings_and_disks(cluster: ConsoledCluster) -> None:
    (row,) = (await overview(cluster)).brokers

    found = await broker(cluster, row.broker_id)

    settings = {each.name: each.value for each in found.settings or ()}
    assert settings["log.retention.ms"] == "-1"
    (disk,) = found.disks or ()
    assert disk.path
    assert disk.usable_bytes
    assert disk.trouble is None
    assert found.gaps == ()
    with pytest.raises(NotFoundError, match="no such broker: 77"):
        await broker(cluster, 77)


async def test_topics_are_found_by_name_with_records_and_sizes(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [b"x" * 100] * 10)

    found = await topics(cluster, Wanted(search=name.upper()))

    (row,) = found.page.rows
    assert (row.name, row.partitions, row.replication_factor) == (name, 2, 1)
    assert row.records == 10
    assert row.size_bytes is not None
    assert row.size_bytes > 1_000
    assert found.gaps == ()


async def test_a_topic_has_partitions_settings_and_readers(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name, retention_ms="86400000")
    write(bootstrap, name, [b"a", b"b", b"c"])
    commit(bootstrap, f"readers-{name}", name, 1)

    found = await topic(cluster, name)
    readers = await groups_of_topic(cluster, name)

    first, second = found.partitions
    assert (first.start_offset, first.end_offset, first.records) == (0, 3, 3)
    assert (second.records, second.leader) == (0, first.leader)
    assert found.records == 3
    settings = {each.name: each for each in found.settings or ()}
    assert settings["retention.ms"].value == "86400000"
    assert settings["retention.ms"].origin == "topic"
    assert settings["cleanup.policy"].origin == "default"
    (reader,) = readers.groups
    assert (reader.group, reader.partitions, reader.lag) == (f"readers-{name}", 1, 2)
    assert found.gaps == readers.gaps == ()


async def test_a_topic_that_is_not_there_is_named_with_what_may_be_meant(
    cluster: ConsoledCluster, name: str
) -> None:
    await make(cluster, name)

    with pytest.raises(NotFoundError, match=f"no such topic: {name}x, did you mean {name}"):
        await topic(cluster, f"{name}x")


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    place = LibraryPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    while consumer.position(place) < offset:
        consumer.poll(1_000, max_records=1)
    consumer.commit()
    consumer.close()


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ({"start": START, "rows": 3}, ["v0", "v1", "v2"]),
        ({"start": Place(Kind.LAST, 3)}, ["v17", "v18", "v19"]),
        ({"start": Place(Kind.LAST, 100), "rows": 2}, ["v18", "v19"]),
        ({"start": Place(Kind.OFFSET, 18)}, ["v18", "v19"]),
        ({"start": Place(Kind.OFFSET, 99)}, []),
        ({"start": Place(Kind.TIME, NOW_MS + 19)}, ["v19"]),
        ({"start": Place(Kind.TIME, NOW_MS + 99)}, []),
        ({"start": START, "end": Place(Kind.OFFSET, 2)}, ["v0", "v1"]),
        ({"start": START, "end": Place(Kind.TIME, NOW_MS + 1)}, ["v0"]),
        ({"starts": {0: 5}, "rows": 1}, ["v5"]),
        ({"partitions": frozenset({1}), "start": START}, []),
        ({"start": END}, []),
        ({"start": START, "wanted": message_filter(text="19")}, ["v19"]),
        ({"start": START, "wanted": message_filter(key="k7")}, ["v7"]),
    ],
)
async def test_messages_are_found_from_a_place_on(
    cluster: ConsoledCluster, bootstrap: str, search: dict[str, Any], expected: list[str]
) -> None:
    name = "twenty"
    if not (await topics(cluster, Wanted(search=name))).page.total:
        await make(cluster, name)
        write(bootstrap, name, [f"v{n}".encode() for n in range(20)])

    found = await messages(cluster, MessageSearch(topic=name, **search))

    assert texts(found) == expected


async def test_a_search_goes_on_where_a_bound_ended_it(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [f"a{n}".encode() for n in range(5)])
    write(bootstrap, name, [f"b{n}".encode() for n in range(5)], partition=1)
    search = MessageSearch(topic=name, start=START, rows=4)

    first = await messages(cluster, search)
    rest = await messages(
        cluster, MessageSearch(topic=name, starts=dict(first.next_offsets), rows=100)
    )

    assert (first.ended, len(first.rows)) == (Ended.ROWS, 4)
    assert rest.ended is Ended.AT_END
    assert rest.next_offsets == {0: 5, 1: 5}
    assert sorted(texts(first) + texts(rest)) == sorted(f"{p}{n}" for p in "ab" for n in range(5))


async def test_a_tail_shows_the_newest_and_counts_what_it_skips(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [f"v{n}".encode() for n in range(10)])
    first = await new_messages(cluster, MessageSearch(topic=name))
    at = MessageSearch(topic=name, starts=dict(first.next_offsets), rows=3)
    nothing = await new_messages(cluster, at)
    write(bootstrap, name, [f"w{n}".encode() for n in range(10)])

    more = await new_messages(cluster, at)
    fitting = await new_messages(cluster, replace(at, wanted=message_filter(text="w")))

    assert (first.rows, nothing.rows, first.next_offsets) == ((), (), {0: 10, 1: 0})
    assert texts(more) == texts(fitting) == ["w7", "w8", "w9"]
    assert (more.looked_at, more.skipped, more.ended) == (3, 7, Ended.AT_END)
    assert (fitting.fitting, fitting.skipped) == (10, 0)
    assert more.next_offsets == fitting.next_offsets == {0: 20, 1: 0}


@pytest.mark.parametrize(
    ("bounds", "ended"), [({"most_bytes": 100}, Ended.BYTES), ({"most_s": 0.0}, Ended.SECONDS)]
)
async def test_a_search_has_bounds_and_says_which_ended_it(
    cluster: ConsoledCluster, bootstrap: str, name: str, bounds: dict[str, Any], ended: Ended
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [b"x" * 50] * 100)

    found = await messages(
        cluster,
        MessageSearch(topic=name, start=START, wanted=message_filter(text="y"), **bounds),
    )

    assert (found.ended, found.rows) == (ended, ())
    assert 0 < found.looked_at <= 100


async def test_large_values_are_not_read_as_json_and_counted(
    cluster: ConsoledCluster, name: str
) -> None:
    await make(cluster, name, partitions=1, max_message_bytes="3000000")
    for text in ("x", "x" * 1_100_000):
        await produce(cluster, NewMessage(topic=name, value=b'{"a": 1, "b": "%b"}' % text.encode()))

    wanted = message_filter(json_path="$.a == 1")
    found = await messages(cluster, MessageSearch(topic=name, start=START, wanted=wanted))

    assert [row.offset for row in found.rows] == [0]
    assert found.gaps == ("1 value of more than a megabyte: too large to be looked into as JSON",)


async def test_messages_of_an_open_transaction_are_named_and_shown_if_wanted(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [b"before"])
    search = MessageSearch(topic=name, start=START)
    with closing(ClusterLinks(bootstrap)) as links:
        view = links.ready_topic(name)
        assert view is not None
        place = TopicPartition(name, 0)
        writer = TransactionalProducer(
            links,
            WriterIdentity(
                transactional_id=f"t-{name}", group=f"g-{name}", partition=place, timeout_ms=60_000
            ),
        )
        writer.add_partitions([place])
        sender = writer.sender(view)
        sender.put(0, [whole_body_of(Record(0, NOW_MS, None, b"open", ()))], NOW_MS)
        sender.complete(NOW_MS)
        sender.send_until(lambda: sender.is_idle)

        committed = await messages(cluster, search)
        everything = await messages(
            cluster, MessageSearch(topic=name, start=START, only_committed=False)
        )
        listed = await transactions(cluster, Wanted(search=f"t-{name}"), only_open=True)
        described = await transaction(cluster, f"t-{name}")
        remembered = await producers(cluster, name)
        searched = await hanging_transactions(cluster, [name], NOW_MS, 0)
        with pytest.raises(ClientError, match=f"that of transactional id t-{name}"):
            await abort_hanging(cluster, place, 1)
        aborted = await abort(cluster, f"t-{name}")

    assert texts(committed) == ["before"]
    assert any("open transaction at offset 1" in gap for gap in committed.gaps)
    assert texts(everything) == ["before", "open"]
    (row,) = listed.page.rows
    assert (row.state, row.partitions) == ("Ongoing", (place,))
    assert described.partitions == (place,)
    assert remembered.producers[0].open_since_offset == 1
    assert (searched.hanging, searched.young, searched.owned) == ((), (), 1)
    assert "is aborted; that epoch is shut out" in aborted
    assert await sum_of_ends(cluster, name) == 3  # with the marker


async def test_a_transactional_id_that_nobody_uses_is_not_found(
    cluster: ConsoledCluster,
) -> None:
    with pytest.raises(NotFoundError, match="no such transactional id: nobody"):
        await transaction(cluster, "nobody")


async def test_a_message_is_written_opened_and_written_again(
    cluster: ConsoledCluster, name: str
) -> None:
    await make(cluster, name)
    new = NewMessage(
        topic=name,
        key=b"k",
        value=b'{"a":[1]}',
        headers=[("trace", b"1"), ("none", None)],
        partition=1,
        timestamp_ms=NOW_MS,
    )

    first = await produce(cluster, new)
    opened = await message(cluster, first.place, first.offset or 0)
    again = await produce(
        cluster,
        NewMessage(
            topic=name,
            key=opened.record.key,
            value=None,
            headers=opened.record.headers,
            partition=1,
        ),
    )
    tombstone = await message(cluster, again.place, again.offset or 0)

    assert (first.place, first.offset, again.offset) == (TopicPartition(name, 1), 0, 1)
    assert opened.value.kind == "json"
    assert opened.value.text == '{"a":[1]}'
    assert opened.row.timestamp_ms == NOW_MS
    assert [(key, value.kind) for key, value in opened.row.headers] == [
        ("trace", "text"),
        ("none", "null"),
    ]
    assert tombstone.value.kind == "null"
    assert tombstone.record.headers == opened.record.headers
    with pytest.raises(NotFoundError, match=f"{name}-1 has no offset 2: it has 0 to 1"):
        await message(cluster, again.place, 2)


async def test_a_message_goes_by_its_key_as_javas_producer_would_send_it(
    cluster: ConsoledCluster, name: str
) -> None:
    await make(cluster, name, partitions=7)

    placed = [await produce(cluster, NewMessage(topic=name, key=b"k")) for _ in range(2)]

    assert placed[0].place == placed[1].place
    with pytest.raises(NotFoundError, match="no such partition"):
        await produce(cluster, NewMessage(topic=name, partition=7))


async def test_a_refused_message_is_reported(cluster: ConsoledCluster, name: str) -> None:
    await make(cluster, name, max_message_bytes="1000", cleanup_policy="compact")

    with pytest.raises(ClientError, match=r"larger than max\.message\.bytes"):
        await produce(cluster, NewMessage(topic=name, key=b"k", value=b"x" * 2_000))
    with pytest.raises(ClientError, match="each record needs a key"):
        await produce(cluster, NewMessage(topic=name, value=b"x"))


async def test_committed_offsets_are_shown_as_what_they_are(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [b"a"])
    commit(bootstrap, f"readers-{name}", name, 1)

    found = await messages(
        cluster,
        MessageSearch(
            topic=GROUP_METADATA_TOPIC,
            start=START,
            rows=1_000,
            wanted=message_filter(key=f"readers-{name}", json_path="$.offset == 1"),
        ),
    )

    (row,) = found.rows
    assert '"kind": "offset"' in row.key.text
    assert (row.key.kind, row.value.kind) == ("json", "json")


async def test_a_group_is_described_reset_after_a_preview_and_deleted(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [f"{n}".encode() for n in range(10)])
    group = f"readers-{name}"
    commit(bootstrap, group, name, 4)

    listed = await groups_of.groups(cluster, Wanted(search=group))
    before = await groups_of.group(cluster, group)
    preview = await groups_of.preview_reset(cluster, group, "earliest", {}, NOW_MS)
    unchanged = await groups_of.group(cluster, group)
    refused = await groups_of.reset(
        cluster, group, {each.place: each.new_offset for each in preview.offsets}
    )
    after = await groups_of.group(cluster, group)

    assert [(row.group, row.lag) for row in listed.page.rows] == [(group, 6)]
    (row,) = before.partitions
    assert (row.committed_offset, row.end_offset, row.lag, before.lag) == (4, 10, 6, 6)
    assert [(each.committed_offset, each.new_offset) for each in preview.offsets] == [(4, 0)]
    assert preview.refusal is None
    assert unchanged.partitions == before.partitions
    assert refused == {}
    assert after.partitions[0].committed_offset == 0
    await groups_of.delete(cluster, group)
    with pytest.raises(NotFoundError, match=f"no such group: {group}"):
        await groups_of.group(cluster, group)


async def test_a_reset_that_cannot_be_is_refused_with_a_sentence(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    group = f"readers-{name}"

    with pytest.raises(ClientError, match="'soon' is none of: earliest"):
        await groups_of.preview_reset(cluster, group, "soon", {}, NOW_MS)
    with pytest.raises(ClientError, match=f"no such group: {group}"):
        await groups_of.preview_reset(cluster, group, "earliest", {}, NOW_MS)
    with pytest.raises(ClientError, match=f"no such topic: {name}x"):
        await groups_of.preview_reset(cluster, group, "latest", {f"{name}x": frozenset()}, NOW_MS)
    place = TopicPartition(name, 0)
    assert await groups_of.reset(cluster, group, {place: 7}) == {
        place: "offset 7 is not there any more"
    }


async def test_a_group_with_members_is_neither_reset_nor_deleted(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [b"a"])
    group = f"readers-{name}"
    consumer = KafkaConsumer(
        name, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest"
    )
    with closing(consumer):
        while not consumer.assignment():
            consumer.poll(500)
        consumer.commit()

        found = await groups_of.group(cluster, group)
        preview = await groups_of.preview_reset(cluster, group, "latest", {}, NOW_MS)
        with pytest.raises(ClientError, match="it has 1 member"):
            await groups_of.reset(cluster, group, {TopicPartition(name, 0): 0})
        with pytest.raises(ClientError, match="it has members"):
            await groups_of.delete(cluster, group)

    (member,) = found.members
    assert set(member.partitions) == {TopicPartition(name, 0), TopicPartition(name, 1)}
    assert found.partitions[0].member_id == member.member_id
    assert preview.refusal is not None


async def test_a_topic_is_configured_grown_trimmed_and_deleted(
    cluster: ConsoledCluster, bootstrap: str, name: str
) -> None:
    await make(cluster, name)
    write(bootstrap, name, [b"x"] * 10)

    configured = await configure_topic(cluster, name, SettingChanges({"retention.ms": "1000000"}))
    reset = await configure_topic(cluster, name, SettingChanges(deletes=["retention.ms"]))
    grown = await grow_topic(cluster, name, 3)
    trim = Trim(before="end", now_ms=NOW_MS, partitions=frozenset({0}))
    preview = await trim_topic(cluster, name, trim, only_previews=True)
    write(bootstrap, name, [b"later"])
    unchanged = await topic(cluster, name)
    shown = replace(trim, at_most={0: preview.partitions[0].start_offset})
    trimmed = await trim_topic(cluster, name, shown, only_previews=False)
    after = await topic(cluster, name)
    deleted = await delete_topic(cluster, name)

    assert configured.refused == reset.refused == grown.refused == trimmed.refused == ()
    assert [each.deleted for each in preview.partitions] == [10]
    assert unchanged.partition_count == 3
    assert unchanged.partitions[0].start_offset == 0
    assert trimmed.partitions[0].deleted == 10
    assert (after.partitions[0].start_offset, after.partitions[0].end_offset) == (10, 11)
    assert deleted.said == (f"{name}: deleted",)


async def test_a_broker_is_configured_alone_and_with_all(cluster: ConsoledCluster) -> None:
    (broker_id,) = (each.broker_id for each in (await overview(cluster)).brokers)
    sets = SettingChanges({"log.cleaner.backoff.ms": "14000"})

    async def is_now(value: str, origin: str) -> bool:
        settings = (await broker(cluster, broker_id)).settings or ()
        (found,) = (each for each in settings if each.name == "log.cleaner.backoff.ms")
        return (found.value, found.origin) == (value, origin)

    # A broker of KRaft hears of a change after it was answered.
    alone = await configure_broker(cluster, broker_id, sets)
    await until(lambda: is_now("14000", "broker (dynamic)"))
    reset = SettingChanges(deletes=["log.cleaner.backoff.ms"])
    assert not (await configure_broker(cluster, broker_id, reset)).refused
    everywhere = await configure_broker(cluster, broker_id, sets, of_all=True)
    await until(lambda: is_now("14000", "cluster (dynamic)"))
    assert not (await configure_broker(cluster, broker_id, reset, of_all=True)).refused

    assert "log.cleaner.backoff.ms altered" in alone.said[0]
    assert everywhere.said == ("all brokers: log.cleaner.backoff.ms altered",)
    start_only = await configure_broker(cluster, broker_id, SettingChanges({"log.dirs": "/x"}))
    assert "log.dirs needs a restart" in start_only.refused[0]
    with pytest.raises(NotFoundError, match="no such broker: 77"):
        await configure_broker(cluster, 77, sets)


async def test_changes_that_are_refused_are_worded(cluster: ConsoledCluster, name: str) -> None:
    await make(cluster, name)

    again = await create_topic(cluster, NewTopic(name=name, settings={}))
    unknown = await configure_topic(cluster, name, SettingChanges({"retention.mss": "1"}))
    shrunk = await grow_topic(cluster, name, 1)

    assert "exists already" in again.refused[0]
    assert "did you mean retention.ms" in unknown.refused[0]
    assert shrunk.refused
    with pytest.raises(ClientError, match="no setting is to be changed"):
        await configure_topic(cluster, name, SettingChanges())
    with pytest.raises(ClientError, match="'soon' is none of: an offset"):
        await trim_topic(cluster, name, Trim(before="soon", now_ms=NOW_MS), only_previews=True)
    with pytest.raises(NotFoundError, match="no such topic"):
        await delete_topic(cluster, f"{name}-none")


async def test_a_cluster_that_is_not_there_has_a_sentence() -> None:
    nowhere = ConsoledCluster("127.0.0.1:1")

    with pytest.raises(ClientError, match=r"cannot connect to 127\.0\.0\.1:1"):
        await overview(nowhere)
    nowhere.close()
