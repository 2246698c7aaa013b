"""Fetches of clients that know old formats, through a ReplicaManager over memory logs."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.append.append_rules import AT_ONCE_RECORDS
from kbroker.log.disk.file_system import StorageError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.record import conversion
from kbroker.record.compression import GZIP, ZSTD
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import BatchOptions, ControlRecord, Record, build, build_marker
from kbroker.replication.long_work import LongWork
from kbroker.replication.reads.down_conversion import DownConversion
from kbroker.replication.reads.fetch_params import FetchParams, FetchPartition
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.unreadable_batches import batch_cut_short, unreadable_batch


def params(**values) -> FetchParams:
    given = {
        "isolation": FetchIsolation.HIGH_WATERMARK,
        "max_bytes": 1 << 20,
        "max_magic": 1,
        "knows_zstd": False,
        **values,
    }
    return FetchParams(**given)


def asked(topic="t", *, offset=0, max_bytes=1 << 20) -> FetchPartition:
    return FetchPartition(TopicPartition(topic, 0), fetch_offset=offset, max_bytes=max_bytes)


def fetch(cluster, *partitions, **values):
    fetching = cluster.replicas.down_conversion.fetch(params(**values), partitions or [asked()])
    return cluster.loop.run_until_complete(asyncio.wait_for(fetching, 5))


def append(cluster, partition, records) -> None:
    cluster.replicas.appends.append_records([(partition.topic_partition, records)], 1, 1000)


def read(data):
    """(format, offset, value) of each record."""
    found = []
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        records = any_records(data, position)
        found += [(header.magic, record.offset, record.value) for record in records]
        position += header.size_bytes
    return found


@pytest.mark.parametrize("magic", [0, 1])
def test_records_come_in_the_format_the_fetcher_knows(cluster, magic):
    append(cluster, cluster.lead("t"), batch(b"a", b"b"))

    (data,) = fetch(cluster, max_magic=magic)

    assert (data.error_code, data.high_watermark) == (0, 2)
    assert read(data.records) == [(magic, 0, b"a"), (magic, 1, b"b")]


def test_compressed_records_are_converted_on_another_thread(cluster, monkeypatch):
    append(cluster, cluster.lead("t"), batch(b"a", compression=GZIP))
    threads = []
    convert = conversion.down_convert

    def convert_and_note(*args):
        threads.append(threading.current_thread())
        return convert(*args)

    monkeypatch.setattr(conversion, "down_convert", convert_and_note)

    (data,) = fetch(cluster)

    assert read(data.records) == [(1, 0, b"a")]
    assert threads != [threading.main_thread()]


def test_many_bytes_are_converted_on_another_thread_and_few_at_once(cluster, monkeypatch):
    partition = cluster.lead("t")
    append(cluster, partition, batch(b"a"))
    append(cluster, partition, batch(b"b" * 20_000))
    threads = []
    convert = conversion.down_convert

    def convert_and_note(*args):
        threads.append(threading.current_thread() is threading.main_thread())
        return convert(*args)

    monkeypatch.setattr(conversion, "down_convert", convert_and_note)

    fetch(cluster, asked(max_bytes=100))
    fetch(cluster, asked())

    assert threads == [True, False]


def test_a_hard_limit_holds_for_the_first_batch(cluster):
    append(cluster, cluster.lead("t"), batch(b"a"))

    (held,) = fetch(cluster, asked(max_bytes=10), is_hard_limit=True)
    (whole,) = fetch(cluster, asked(max_bytes=10))

    assert (held.error_code, held.records) == (0, b"")
    assert read(whole.records) == [(1, 0, b"a")]


def test_one_partition_that_cannot_come_spoils_no_other(cluster):
    append(cluster, cluster.lead("z"), batch(b"a", compression=ZSTD))
    append(cluster, cluster.lead("t"), batch(b"b"))

    refused, data = fetch(cluster, asked("z"), asked("t"))

    unsupported = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (refused.error_code, refused.high_watermark, refused.records) == (unsupported, -1, b"")
    assert read(data.records) == [(1, 0, b"b")]


def test_a_topic_of_zstd_is_refused_before_it_is_read(cluster):
    cluster.lead("t").log.config.compression_type = "zstd"

    (data,) = fetch(cluster, max_wait_ms=500)

    assert data.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize(
    ("stored", "replica_id", "code"),
    [
        (2, -1, ErrorCode.UNSUPPORTED_VERSION),
        (1, -1, ErrorCode.NONE),
        (2, 1, ErrorCode.NONE),
    ],
    ids=["consumer", "topic of that format", "follower"],
)
def test_a_topic_may_refuse_to_convert_for_consumers(cluster, stored, replica_id, code):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    partition.log.config.message_downconversion_enable = False
    partition.log.config.message_format = stored

    (data,) = fetch(cluster, replica_id=replica_id)

    assert data.error_code == code


def marker(offset):
    built = build_marker(
        ControlRecord(True, 0), 1000, base_offset=offset, options=BatchOptions(producer_id=7)
    )
    return memoryview(bytearray(built))


def test_behind_markers_the_read_goes_on(cluster):
    partition = cluster.lead("t")
    for records in (batch(b"a"), marker(1), marker(2), batch(b"b")):
        append(cluster, partition, records)
    size = len(marker(0))

    (data,) = fetch(cluster, asked(offset=1, max_bytes=size))

    assert read(data.records) == [(1, 3, b"b")]


def test_behind_the_last_marker_it_waits_for_records(cluster):
    partition = cluster.lead("t")
    append(cluster, partition, marker(0))
    conversion = cluster.replicas.down_conversion.fetch(params(max_wait_ms=500), [asked()])
    fetching = cluster.loop.create_task(conversion)
    for _ in range(5):
        cluster.run_callbacks()
    waited = not fetching.done()

    append(cluster, partition, batch(b"b"))

    (data,) = cluster.loop.run_until_complete(asyncio.wait_for(fetching, 5))
    assert waited
    assert read(data.records) == [(1, 1, b"b")]


@pytest.mark.parametrize(
    "unreadable", [unreadable_batch(2, 3), batch_cut_short(2, 3)], ids=["packed", "cut"]
)
@pytest.mark.parametrize("offset", [0, 2])
def test_a_batch_that_cannot_be_read_is_left_out_and_named(cluster, caplog, unreadable, offset):
    partition = cluster.lead("t")
    append(cluster, partition, batch(b"a", b"b", compression=GZIP))
    append(cluster, partition, bytearray(unreadable))
    append(cluster, partition, batch(b"c", compression=GZIP))

    for _ in range(2):
        (data,) = fetch(cluster, asked(offset=offset))

    assert data.error_code == ErrorCode.NONE
    assert [found[2] for found in read(data.records)] == [b"a", b"b", b"c"][offset:]
    told = [line for line in caplog.messages if line.startswith("The batch at offset 2 of t-0 ")]
    assert len(told) == 1


def test_where_no_batch_can_be_read_the_read_goes_on_behind_them(cluster):
    partition = cluster.lead("t")
    for offset in range(3):
        append(cluster, partition, bytearray(unreadable_batch(offset)))
    append(cluster, partition, batch(b"c"))

    (data,) = fetch(cluster, asked(max_bytes=150))

    assert read(data.records) == [(1, 3, b"c")]


def test_a_segment_that_went_away_meanwhile_is_an_error_of_its_partition(cluster):
    class Gone:
        def __len__(self):
            return 100

        def read(self):
            raise StorageError("/data/t-0/0.log", "read", 2)

    def fetch_gone(_params, _asked):
        return [FetchResponse.PartitionData(records=Gone())]

    fetching = DownConversion(fetch_gone, LongWork()).fetch(params(), [asked()])
    (data,) = cluster.loop.run_until_complete(fetching)

    assert (data.error_code, data.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")


def test_conversions_go_one_after_the_other(cluster, monkeypatch):
    running = []
    together = []

    def slowly(*args):
        running.append(1)
        together.append(len(running))
        threading.Event().wait(0.01)
        running.pop()
        return conversion.DownConverted(b"x", 1)

    monkeypatch.setattr(conversion, "down_convert", slowly)
    for topic in ("a", "b", "c"):
        append(cluster, cluster.lead(topic), batch(b"v", compression=GZIP))

    async def all_at_once():
        fetch_converted = cluster.replicas.down_conversion.fetch
        await asyncio.gather(*(fetch_converted(params(), [asked(topic)]) for topic in "abc"))

    cluster.loop.run_until_complete(asyncio.wait_for(all_at_once(), 5))

    assert together == [1, 1, 1]


def test_a_conversion_waits_for_other_long_work(cluster, monkeypatch):
    seen = []

    def note(*_):
        seen.append("conversion")
        return conversion.DownConverted(b"x", 1)

    monkeypatch.setattr(conversion, "down_convert", note)
    append(cluster, cluster.lead("a"), batch(b"v", compression=GZIP))

    async def both():
        work = LongWork()
        conversion = DownConversion(cluster.replicas.fetches.fetch, work)
        begun, goes_on = asyncio.Event(), threading.Event()
        loop = asyncio.get_running_loop()

        def other(_given, _pace):
            loop.call_soon_threadsafe(begun.set)
            goes_on.wait(5)
            seen.append("other work")

        first = loop.create_task(work.run(other, None))
        await begun.wait()
        second = loop.create_task(conversion.fetch(params(), [asked("a")]))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not second.done()
        goes_on.set()
        await asyncio.gather(first, second)

    cluster.loop.run_until_complete(asyncio.wait_for(both(), 5))

    assert seen == ["other work", "conversion"]


def test_conversions_and_long_appends_share_one_turn(cluster, monkeypatch, tmp_path):
    turns = []
    run_read = LongWork.run_read

    async def noted(work, *steps):
        turns.append(work)
        return await run_read(work, *steps)

    monkeypatch.setattr(LongWork, "run_read", noted)
    partition = cluster.lead("t")
    partition.log = open_log(tmp_path, cleanup_policy=("compact",))
    records = [
        Record(offset=n, timestamp=NOW_MS, key=b"k", value=b"v") for n in range(AT_ONCE_RECORDS + 1)
    ]
    long = bytearray(build(records, options=BatchOptions(compression=GZIP)))

    async def append_all():
        entries = [(partition.topic_partition, long)]
        return await cluster.replicas.appends.append_records(entries, 1, 1000).settled

    (result,) = cluster.loop.run_until_complete(asyncio.wait_for(append_all(), 5))
    (data,) = fetch(cluster)

    assert (result.error_code, len(read(data.records))) == (0, len(records))
    assert len(turns) >= 2
    assert len(set(turns)) == 1


def test_what_waits_for_its_turn_is_not_read_yet(cluster, monkeypatch):
    reads = []
    read_before_conversion = []

    class Large:
        def __len__(self):
            return 20_000

        def read(self):
            reads.append(self)
            return bytes(20_000)

    def note(*_):
        read_before_conversion.append(len(reads))
        return conversion.DownConverted(b"x", 1)

    monkeypatch.setattr(conversion, "down_convert", note)

    async def all_at_once():
        conversion = DownConversion(
            lambda *_: [FetchResponse.PartitionData(records=Large())], LongWork()
        )
        await asyncio.gather(*(conversion.fetch(params(), [asked(topic)]) for topic in "abc"))

    cluster.loop.run_until_complete(asyncio.wait_for(all_at_once(), 5))

    assert read_before_conversion == [1, 2, 3]
