"""Look-ups by time that leave the event loop, and what may happen to the log meanwhile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.compression import GZIP
from kbroker.record.record_batch import (
    BatchOptions,
    Record,
    assign_max_timestamp,
    build,
    read_header,
)
from kbroker.replication.long_work import LongWork
from kbroker.replication.reads.offset_lookup import (
    MAX_TIMESTAMP,
    OffsetLookup,
    OffsetParams,
    OffsetQuery,
    OffsetResult,
)
from tests.fakes.brokers.long_appends_broker import HeldWork, LongAppendsBroker, settled
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.unreadable_batches import batch_cut_short, unreadable_batch

T = TopicPartition("t", 0)
U = TopicPartition("u", 0)
PARAMS = OffsetParams(version=7)
NOT_FOUND = OffsetResult(ErrorCode.NONE)


def send(broker: LongAppendsBroker, where: TopicPartition, *times: int, lie: int = 0) -> Log:
    records = [Record(n, NOW_MS + time, b"k", b"v" * 20) for n, time in enumerate(times)]
    data = bytearray(build(records, options=BatchOptions(compression=GZIP)))
    if lie:
        assign_max_timestamp(read_header(data), data, 0, NOW_MS + lie)
    partition = broker.partitions[where]
    partition.log.append_as_leader(data, 0, NOW_MS)
    partition.maybe_increment_high_watermark(NOW_MS)
    return partition.log


def asked(broker: LongAppendsBroker, *queries: OffsetQuery) -> asyncio.Task[list[OffsetResult]]:
    hosted: Any = broker
    answer = OffsetLookup(hosted, broker.work).list_offsets(PARAMS, queries)
    assert not isinstance(answer, list)
    return asyncio.ensure_future(answer)


async def test_answers_keep_the_order_of_their_questions(tmp_path: Path) -> None:
    logs = {T: open_log(tmp_path / "t"), U: open_log(tmp_path / "u")}
    broker = LongAppendsBroker(logs, HeldWork())
    send(broker, T, 1, 5)
    send(broker, U, 2, 9)
    wanted = [
        OffsetQuery(T, NOW_MS + 3),
        OffsetQuery(TopicPartition("missing", 0), NOW_MS),
        OffsetQuery(U, -1),
        OffsetQuery(U, MAX_TIMESTAMP),
    ]
    answer = asked(broker, *wanted)
    await broker.work.let_through(2)

    assert await answer == [
        OffsetResult(ErrorCode.NONE, NOW_MS + 5, 1, 0),
        OffsetResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        OffsetResult(ErrorCode.NONE, -1, 2, 0),
        OffsetResult(ErrorCode.NONE, NOW_MS + 9, 1, 0),
    ]


async def test_headers_that_lie_are_passed_one_at_a_time(tmp_path: Path) -> None:
    broker = LongAppendsBroker({T: open_log(tmp_path, walks_records=False)}, HeldWork())
    for _ in range(3):
        send(broker, T, 0, lie=1_000)
    send(broker, T, 500)
    answer = asked(broker, OffsetQuery(T, NOW_MS + 400))
    await broker.work.let_through(3)
    assert not answer.done()

    await broker.work.let_through()

    assert await answer == [OffsetResult(ErrorCode.NONE, NOW_MS + 500, 3, 0)]


async def test_the_partition_is_asked_for_anew(tmp_path: Path) -> None:
    logs = {where: open_log(tmp_path / where.topic, walks_records=False) for where in (T, U)}
    broker = LongAppendsBroker(logs, HeldWork())
    for where in (T, U):
        send(broker, where, 0, lie=1_000)
        send(broker, where, 500)
    answer = asked(broker, *(OffsetQuery(where, NOW_MS + 400) for where in (T, U)))
    await settled()

    logs[T].truncate_to(0)
    del broker.partitions[U]
    await broker.work.let_through(2)

    assert await answer == [NOT_FOUND, OffsetResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


def test_records_beyond_the_isolation_are_not_found(tmp_path: Path) -> None:
    broker = LongAppendsBroker({T: open_log(tmp_path / "t")})
    broker.lead(T, 1, isr=(0, 1))  # a follower that has not fetched holds the high watermark back
    broker.partitions[T].log.append_as_leader(
        bytearray(build([Record(0, NOW_MS, b"k", b"v")])), 1, NOW_MS
    )
    hosted: Any = broker
    lookup = OffsetLookup(hosted, broker.work)
    queries = [OffsetQuery(T, NOW_MS), OffsetQuery(T, MAX_TIMESTAMP)]

    to_consumers = lookup.list_offsets(PARAMS, queries)
    to_followers = lookup.list_offsets(
        OffsetParams(version=7, isolation=FetchIsolation.LOG_END), queries
    )

    assert to_consumers == [NOT_FOUND, NOT_FOUND]
    assert to_followers == [OffsetResult(ErrorCode.NONE, NOW_MS, 0, 1)] * 2


async def test_a_search_goes_past_a_batch_that_cannot_be_read_and_names_it_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR, and clients ask until their time is over."""
    broker = LongAppendsBroker({T: open_log(tmp_path / "t")}, LongWork())
    send(broker, T, 1, 2)
    broker.partitions[T].log.append_as_follower(
        unreadable_batch(2, 2, timestamp=NOW_MS + 3), NOW_MS
    )
    send(broker, T, 6, 9)
    queries = [OffsetQuery(T, NOW_MS + time) for time in (2, 3, 3, 9)]

    found = await asked(broker, *queries)

    assert [result.error_code for result in found] == [ErrorCode.NONE] * 4
    assert [result.offset for result in found] == [1, 4, 4, 5]
    told = [line for line in caplog.messages if line.startswith("The batch at offset 2 of t-0 ")]
    assert len(told) == 1


def test_records_before_the_place_from_which_a_batch_cannot_be_read_are_found(
    tmp_path: Path,
) -> None:
    broker = LongAppendsBroker({T: open_log(tmp_path / "t")}, LongWork())
    broken = batch_cut_short(0, 2, timestamp=NOW_MS + 3)
    broker.partitions[T].log.append_as_follower(broken, NOW_MS)
    broker.partitions[T].maybe_increment_high_watermark(NOW_MS)
    hosted: Any = broker

    answer = OffsetLookup(hosted, broker.work).list_offsets(PARAMS, [OffsetQuery(T, NOW_MS)])

    assert answer == [OffsetResult(ErrorCode.NONE, NOW_MS + 3, 0, 0)]


@pytest.mark.parametrize("log_start", [0, 1, 2, 4, 6])
def test_the_newest_record_is_told_as_long_as_its_segment_is_there(
    tmp_path: Path, log_start: int
) -> None:
    """As Apache Kafka does: what DeleteRecords took is no less the newest."""
    log = open_log(tmp_path)
    broker = LongAppendsBroker({T: log})
    hosted: Any = broker
    lookup = OffsetLookup(hosted, broker.work)
    for time in (30, 20, 10):
        records = [Record(n, NOW_MS + time, b"k", b"v") for n in (0, 1)]
        log.append_as_leader(bytearray(build(records)), 0, NOW_MS)
    broker.partitions[T].maybe_increment_high_watermark(NOW_MS)
    log.maybe_increment_log_start_offset(log_start)

    for _ in range(2):
        answer = lookup.list_offsets(PARAMS, [OffsetQuery(T, MAX_TIMESTAMP)])
        assert answer == [OffsetResult(ErrorCode.NONE, NOW_MS + 30, 0, 0)]
        log.roll(NOW_MS)


async def test_the_newest_record_that_can_be_read_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR."""
    log = open_log(tmp_path / "t")
    broker = LongAppendsBroker({T: log}, LongWork())
    for place, time in enumerate((10, 50, 40, 60, 50)):
        broken = unreadable_batch(2 * place, 2, timestamp=NOW_MS + time)
        records = [Record(2 * place + n, NOW_MS + time, b"k", b"v") for n in (0, 1)]
        options = BatchOptions(partition_leader_epoch=0)
        sound = build(records, base_offset=2 * place, options=options)
        log.append_as_follower(broken if time >= 50 and place < 4 else sound, NOW_MS)
        if place == 2:  # the others lie in two segments
            log.roll(NOW_MS)
    broker.partitions[T].maybe_increment_high_watermark(NOW_MS)

    (found,) = await asked(broker, OffsetQuery(T, MAX_TIMESTAMP))

    assert found == OffsetResult(ErrorCode.NONE, NOW_MS + 50, 8, 0)
    assert [line[:31] for line in caplog.messages] == [
        f"The batch at offset {offset} of t-0 ca" for offset in (6, 2)
    ]
