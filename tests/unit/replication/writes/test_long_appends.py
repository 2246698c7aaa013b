"""Appends that wait for a worker thread: their order, and what may happen meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode
from kbroker.log.append.append_rules import AT_ONCE_RECORDS
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record import record_batch
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, plain_pieces
from kbroker.record.default_record import varint_bytes
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import BatchOptions, Record, build, join_batch, read_header
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.partitions.produce_result import PartitionProduceResult
from kbroker.replication.writes import long_appends
from tests.fakes.brokers.long_appends_broker import HeldWork, LongAppendsBroker, settled
from tests.fakes.logs.log_maker import NOW_MS, open_log, read_values

T = TopicPartition("t", 0)
U = TopicPartition("u", 0)
MANY = AT_ONCE_RECORDS + 1
COMPACTED = {"cleanup_policy": ("compact",)}
HEADER_ONLY = {"walks_records": False}
pytestmark = pytest.mark.timeout(30)


def batch(count: int, value: bytes = b"v", codec: int = NONE, **options: Any) -> bytes:
    """Records that are not alike, so that each is walked by itself."""
    records = [Record(n, NOW_MS, b"k" * (1 + n % 2), value) for n in range(count)]
    return build(records, options=BatchOptions(compression=codec, **options))


LONG = batch(MANY, b"long")


def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(coroutine)


def stored(log: Log) -> list[bytes | None]:
    return read_values(log.read(0, 1 << 24, FetchIsolation.LOG_END).records.read())


def said(results: list[PartitionProduceResult]) -> list[tuple[ErrorCode, int]]:
    return [(result.error_code, result.base_offset) for result in results]


async def test_a_small_batch_does_not_overtake_a_long_one(tmp_path: Path) -> None:
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    first = started(broker.append([(T, LONG)]))
    await settled()
    second = started(broker.append([(T, batch(1, b"small"))]))
    await settled()
    assert (first.done(), second.done(), log.log_end_offset) == (False, False, 0)

    await work.let_through(2)

    assert said(await first) == [(ErrorCode.NONE, 0)]
    assert said(await second) == [(ErrorCode.NONE, MANY)]
    assert stored(log) == [b"long"] * MANY + [b"small"]
    third = broker.appends.append_records([(T, bytearray(batch(1)))], 1, 1_000)
    assert third.settled is None  # nothing waits any more


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_other_partitions_are_not_held_up(tmp_path: Path, acks: int) -> None:
    work = HeldWork()
    logs = {T: open_log(tmp_path / "t", **COMPACTED), U: open_log(tmp_path / "u", **COMPACTED)}
    broker = LongAppendsBroker(logs, work)
    first = started(broker.append([(T, LONG)], acks=acks))
    await settled()

    outcome = broker.appends.append_records([(U, bytearray(batch(1)))], acks, 1_000)

    assert outcome.settled is None
    assert said(outcome.results) == [(ErrorCode.NONE, 0)]
    await work.let_through()
    assert said(await first) == [(ErrorCode.NONE, 0)]
    assert broker.woken == [U, T]


async def test_a_request_is_answered_in_its_order_when_all_of_it_is_stored(tmp_path: Path) -> None:
    work = HeldWork()
    logs = {T: open_log(tmp_path / "t", **COMPACTED), U: open_log(tmp_path / "u", **COMPACTED)}
    broker = LongAppendsBroker(logs, work)
    missing = TopicPartition("missing", 0)
    asked = started(broker.append([(T, LONG), (missing, batch(1)), (U, batch(2))]))
    await settled()
    assert (logs[U].log_end_offset, logs[T].log_end_offset, asked.done()) == (2, 0, False)

    await work.let_through()

    results = await asked
    assert [result.topic_partition for result in results] == [T, missing, U]
    assert said(results) == [
        (ErrorCode.NONE, 0),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (ErrorCode.NONE, 0),
    ]


async def test_a_batch_sent_twice_while_it_is_prepared_is_stored_once(tmp_path: Path) -> None:
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    data = batch(MANY, producer_id=5, producer_epoch=0, base_sequence=0)
    after = batch(1, b"next", producer_id=5, producer_epoch=0, base_sequence=MANY)
    asked = [started(broker.append([(T, each)])) for each in (data, data, after)]
    await settled()

    await work.let_through(3)

    assert [said(await each) for each in asked] == [
        [(ErrorCode.NONE, 0)],
        [(ErrorCode.NONE, 0)],
        [(ErrorCode.NONE, MANY)],
    ]
    assert log.log_end_offset == MANY + 1


async def test_leadership_is_looked_at_again(tmp_path: Path) -> None:
    work = HeldWork()
    logs = {T: open_log(tmp_path / "t", **COMPACTED), U: open_log(tmp_path / "u", **COMPACTED)}
    broker = LongAppendsBroker(logs, work)
    asked = [started(broker.append([(where, LONG)])) for where in (T, T, U)]
    await settled()

    broker.lead(T, 7)
    await work.let_through()
    assert said(await asked[0]) == [(ErrorCode.NONE, 0)]
    assert logs[T].leader_epoch_cache.latest_epoch == 7
    broker.lead(T, 8, leader=1)
    del broker.partitions[U]
    await work.let_through(2)

    assert said(await asked[1]) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert said(await asked[2]) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert (logs[T].log_end_offset, logs[U].log_end_offset) == (MANY, 0)
    assert broker.appends.append_records([(T, bytearray(batch(1)))], 1, 0).settled is None


async def test_what_is_committed_while_others_are_prepared_is_acknowledged_with_them(
    tmp_path: Path,
) -> None:
    work = HeldWork()
    logs = {T: open_log(tmp_path / "t", **COMPACTED), U: open_log(tmp_path / "u", **COMPACTED)}
    broker = LongAppendsBroker(logs, work)
    broker.lead(U, 1, isr=(0, 1))
    asked = started(broker.append([(U, batch(1)), (T, LONG)], acks=-1))
    await settled()

    broker.partitions[U].follower_fetched(1, 1, 0, NOW_MS)
    assert logs[U].high_watermark == 1
    await work.let_through()

    assert asked.done()  # no follower comes again
    assert said(await asked) == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 0)]


@pytest.mark.parametrize("is_made_anew", [False, True])
async def test_records_that_are_lost_while_others_are_prepared_are_not_acknowledged(
    tmp_path: Path, is_made_anew: bool
) -> None:
    work = HeldWork()
    logs = {T: open_log(tmp_path / "t", **COMPACTED), U: open_log(tmp_path / "u", **COMPACTED)}
    broker = LongAppendsBroker(logs, work)
    broker.lead(U, 1, isr=(0, 1))
    asked = started(broker.append([(U, batch(1, b"lost")), (T, LONG)], acks=-1))
    await settled()
    assert logs[U].log_end_offset == 1

    broker.lead(U, 2, leader=1)
    if is_made_anew:
        broker.partitions[U] = Partition(U, open_log(tmp_path / "new", **COMPACTED), 0)
    else:
        logs[U].truncate_to(0)
    broker.lead(U, 3)
    assert said(await broker.append([(U, batch(1, b"other"))])) == [(ErrorCode.NONE, 0)]
    await work.let_through()

    assert said(await asked) == [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0),
        (ErrorCode.NONE, 0),
    ]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"compression_type": "gzip"}, ErrorCode.NONE),
        ({"max_message_bytes": 100}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"message_timestamp_type": "LogAppendTime"}, ErrorCode.NONE),
        ({"message_timestamp_after_max_ms": 1}, ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=str,
)
async def test_settings_that_change_meanwhile_hold(
    tmp_path: Path, change: dict[str, Any], code: ErrorCode
) -> None:
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    late = build([Record(n, NOW_MS + 9, b"k" * (1 + n % 2), b"v") for n in range(MANY)])
    asked = started(broker.append([(T, late)]))
    await settled()

    log.update_config(TopicConfig(**COMPACTED | change))
    await work.let_through(2)

    assert said(await asked)[0][0] is code
    assert work.asked == 2
    assert log.log_end_offset == (MANY if code is ErrorCode.NONE else 0)
    if code is ErrorCode.NONE:
        header = read_header(log.read(0, 1 << 20, FetchIsolation.LOG_END).records.read())
        assert (header.compression == GZIP) == ("compression_type" in change)
        assert header.timestamp_type == ("message_timestamp_type" in change)


async def test_messages_for_an_old_format_get_the_offsets_of_their_append(tmp_path: Path) -> None:
    work = HeldWork()
    log = open_log(tmp_path, message_format_version="0.10.0")
    broker = LongAppendsBroker({T: log}, work)
    old = build_legacy([Record(n, NOW_MS, b"k", b"v" * 90) for n in range(300)], 1)
    asked = [
        started(broker.append([(T, old)], AppendOrigin.OLD_CLIENT)),
        started(broker.append([(T, batch(3, codec=GZIP))])),
    ]
    await settled()

    broker.lead(T, 1)  # another epoch: the place it was prepared for is gone
    await work.let_through(3)

    assert [said(await each) for each in asked] == [
        [(ErrorCode.NONE, 0)],
        [(ErrorCode.NONE, 300)],
    ]
    assert len(stored(log)) == 303


async def test_a_stop_refuses_what_is_not_appended_yet(tmp_path: Path) -> None:
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    asked = [started(broker.append([(T, LONG)])) for _ in range(2)]
    await settled()

    broker.appends.shutdown()
    await work.let_through(2)

    assert [said(await each) for each in asked] == [
        [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)],
        [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)],
    ]
    assert log.log_end_offset == 0


async def test_a_request_that_is_given_up_is_appended_all_the_same(tmp_path: Path) -> None:
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    asked = started(broker.append([(T, LONG)]))
    await settled()

    asked.cancel()
    await work.let_through()

    assert log.log_end_offset == MANY
    assert broker.appends.append_records([(T, bytearray(batch(1)))], 1, 0).settled is None


async def test_no_more_waits_than_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_appends, "MOST_WAITING_BYTES", 2 * len(LONG))
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    asked = [started(broker.append([(T, LONG)])) for _ in range(3)]
    await settled()

    assert said(await asked[2]) == [(ErrorCode.REQUEST_TIMED_OUT, -1)]
    await work.let_through(2)
    assert [said(await each) for each in asked[:2]] == [
        [(ErrorCode.NONE, 0)],
        [(ErrorCode.NONE, MANY)],
    ]
    await work.let_through()
    assert said(await broker.append([(T, LONG)])) == [(ErrorCode.NONE, 2 * MANY)]


async def test_a_bug_ends_one_request_and_no_other(tmp_path: Path) -> None:
    work = HeldWork()
    log = open_log(tmp_path, **COMPACTED)
    broker = LongAppendsBroker({T: log}, work)
    asked = [started(broker.append([(T, LONG)])) for _ in range(2)]
    await settled()

    work.bug = ZeroDivisionError()
    await work.let_through()
    with pytest.raises(ZeroDivisionError):
        await asked[0]
    work.bug = None
    await work.let_through()

    assert said(await asked[1]) == [(ErrorCode.NONE, 0)]


async def test_a_bad_batch_is_refused_as_on_the_loop(tmp_path: Path) -> None:
    records = [Record(n, NOW_MS, b"k" if n else None, b"v") for n in range(MANY)]
    broker = LongAppendsBroker({T: open_log(tmp_path, **COMPACTED)})

    (result,) = await broker.append([(T, build(records))])

    assert result.error_code is ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in result.record_errors] == [0]
    assert result.log_start_offset == 0


async def test_an_answer_names_a_thousand_records_at_most(tmp_path: Path) -> None:
    records = [Record(n, NOW_MS, None, b"v") for n in range(3_000)]
    broker = LongAppendsBroker({T: open_log(tmp_path, **COMPACTED)})

    (result,) = await broker.append([(T, build(records))])

    assert [error.batch_index for error in result.record_errors] == list(range(1_000))
    assert "due to 3000 record errors in total" in str(result.error_message)


def alike(count: int, codec: int = NONE) -> bytes:
    """Records of the same lengths."""
    records = [Record(n, NOW_MS, b"k", b"") for n in range(count)]
    return build(records, options=BatchOptions(compression=codec))


def with_headers(records: int, headers: int) -> bytes:
    """A batch of records that have so many headers each, and values of different lengths."""
    own = (("h", b"1"),) * headers
    return build([Record(n, NOW_MS, b"k", b"v" * n, own) for n in range(records)])


def claiming_one(codec: int, plain_bytes: int) -> bytes:
    """A batch that claims one record and unpacks to far more."""
    header = read_header(build([Record(0, NOW_MS, b"k", b"v")]))
    return join_batch(header._replace(attributes=codec), bytes(plain_bytes))


VERY_LARGE = COMPACTED | {"max_message_bytes": 1 << 24}
# Made when they are wanted: each process of a test run imports this.
LOOP_OR_THREAD: dict[str, tuple[dict[str, Any], Callable[[], bytes], bool]] = {
    "few": (COMPACTED, lambda: batch(AT_ONCE_RECORDS), False),
    "many": (COMPACTED, lambda: LONG, True),
    "many alike": ({}, lambda: alike(11 * AT_ONCE_RECORDS), False),
    "very many alike": ({}, lambda: alike(13 * AT_ONCE_RECORDS), True),
    "with headers": ({}, lambda: with_headers(140, 6), False),
    "one with a few headers": ({}, lambda: with_headers(1, 63), False),
    "one with many headers": ({}, lambda: with_headers(1, 5_000), True),
    "many headers together": ({}, lambda: with_headers(140, 40), True),
    "many, unopened": (HEADER_ONLY, lambda: LONG, False),
    "large": (COMPACTED, lambda: batch(2, b"v" * 400_000), False),
    "very large": (VERY_LARGE, lambda: batch(2, b"v" * 3_000_000), True),
    "large, gzip": (COMPACTED, lambda: batch(2, b"v" * 40_000, GZIP), True),
    "large, zstd": (COMPACTED, lambda: batch(2, b"v" * 200_000, ZSTD), False),
    "very large, zstd": (COMPACTED, lambda: batch(2, b"v" * 300_000, ZSTD), True),
    "small, compressed": (COMPACTED, lambda: batch(200, b"v" * 200, ZSTD), False),
    "another codec": ({"compression_type": "zstd"}, lambda: batch(5, b"v" * 10_000), True),
    "another codec, little": ({"compression_type": "zstd"}, lambda: batch(5, b"v" * 1_000), False),
    "broker's time": ({"message_timestamp_type": "LogAppendTime"}, lambda: LONG, True),
    "broker's time, unopened": (
        {"message_timestamp_type": "LogAppendTime", **HEADER_ONLY},
        lambda: LONG,
        False,
    ),
    "times in bounds": ({"message_timestamp_after_max_ms": 1_000}, lambda: LONG, True),
    "all records": ({}, lambda: LONG, True),
    "more records than bytes": (HEADER_ONLY, lambda: alike(20_000, ZSTD), True),
    **{
        f"bomb of codec {codec}": (COMPACTED, partial(claiming_one, codec, 1 << 20), True)
        for codec in (GZIP, SNAPPY, LZ4, ZSTD)
    },
}


@pytest.mark.parametrize(
    ("settings", "data", "waits"), LOOP_OR_THREAD.values(), ids=list(LOOP_OR_THREAD)
)
async def test_what_takes_long_leaves_the_loop(
    tmp_path: Path, settings: dict[str, Any], data: Callable[[], bytes], waits: bool
) -> None:
    work = HeldWork()
    broker = LongAppendsBroker({T: open_log(tmp_path, **settings)}, work)
    asked = started(broker.append([(T, data())]))
    await settled()

    assert asked.done() is not waits

    await work.let_through()
    ends = {ErrorCode.NONE, ErrorCode.INVALID_RECORD}
    assert (await asked)[0].error_code in ends


@pytest.mark.parametrize(
    ("partitions", "count", "value", "codec", "waits"),
    [
        (6, 140, b"v" * 100, NONE, False),  # what a producer with six partitions sends
        (6, 140, b"v" * 100, ZSTD, False),
        (6, 1, b"v" * 160_000, NONE, False),
        (20, 100, b"v", NONE, True),
        (20, 1, b"v" * 5_000, GZIP, True),
    ],
)
async def test_many_partitions_share_what_one_request_may_take(
    tmp_path: Path, partitions: int, count: int, value: bytes, codec: int, waits: bool
) -> None:
    work = HeldWork()
    names = [TopicPartition("t", n) for n in range(partitions)]
    logs = {name: open_log(tmp_path / str(name.partition), **COMPACTED) for name in names}
    broker = LongAppendsBroker(logs, work)
    asked = started(broker.append([(name, batch(count, value, codec)) for name in names]))
    await settled()
    assert (asked.done(), work.asked) == (not waits, int(waits))

    await work.let_through()

    assert said(await asked) == [(ErrorCode.NONE, 0)] * partitions


async def test_payloads_that_cannot_be_had_within_the_limit_use_it_up(tmp_path: Path) -> None:
    work = HeldWork()
    names = [TopicPartition("t", n) for n in range(3)]
    logs = {name: open_log(tmp_path / str(name.partition), **COMPACTED) for name in names}
    broker = LongAppendsBroker(logs, work)
    sent = zip(names, (batch(1), claiming_one(ZSTD, 1 << 20), batch(1)), strict=True)
    asked = started(broker.append(list(sent)))
    await settled()

    assert [log.log_end_offset for log in logs.values()] == [1, 0, 0]

    await work.let_through()
    assert [log.log_end_offset for log in logs.values()] == [1, 0, 1]
    assert (await asked)[1].error_code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
async def test_a_bomb_is_refused_and_the_next_one_served(tmp_path: Path, codec: int) -> None:
    bomb = claiming_one(codec, 65 << 20)
    settings = COMPACTED | {"max_message_bytes": 1 << 24}
    broker = LongAppendsBroker({T: open_log(tmp_path, **settings)})
    assert (await broker.append([(T, bomb)]))[0].error_code is ErrorCode.INVALID_RECORD
    assert said(await broker.append([(T, batch(1))])) == [(ErrorCode.NONE, 0)]


@pytest.mark.parametrize(
    ("data", "least_bytes"),
    [
        (LONG, len(LONG)),
        (batch(MANY, codec=ZSTD), 7 * MANY),
        (build_legacy([Record(0, NOW_MS, b"k", b"v" * 5_000_000)], 1), 5_000_035),
    ],
    ids=["plain", "compressed", "old"],
)
async def test_it_is_said_beforehand_how_much_will_be_unpacked_at_least(
    tmp_path: Path, data: bytes, least_bytes: int
) -> None:
    work = HeldWork()
    logs = {where: open_log(tmp_path / where.topic, max_message_bytes=1 << 24) for where in (T, U)}
    broker = LongAppendsBroker(logs, work)
    asked = started(broker.append([(T, data), (U, data)], AppendOrigin.OLD_CLIENT))
    await settled()

    assert work.least_bytes == 2 * least_bytes

    await work.let_through()
    assert said(await asked) == [(ErrorCode.NONE, 0)] * 2


class SlowBomb:
    """Stands for zstd: a record without end, unpacked until others are served or `most` pieces."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
        monkeypatch.setattr(record_batch, "plain_pieces", self._plain_pieces)
        self._most = most
        self.data = claiming_one(ZSTD, 1 << 20)
        self.given = 0
        self.is_large, self.others_wait, self.others_are_served = Event(), Event(), Event()

    def _plain_pieces(self, codec: int, data: memoryview) -> Iterator[bytes | bytearray]:
        return self._pieces() if codec == ZSTD else plain_pieces(codec, data)

    def _pieces(self) -> Iterator[bytes]:
        yield b"\xfe\xff\xff\xff\x0f\0\0\0\1" + varint_bytes(2**31 - 100)
        for _ in range(self._most):
            self.given += 1
            yield bytes(PIECE_BYTES)
            if self.given == 200:  # too much for the lanes of little work
                self.is_large.set()
                self.others_wait.wait(10)
            if self.given > 200 and self.others_are_served.wait(0.001):
                return


async def test_a_bomb_does_not_hold_up_the_long_appends_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = SlowBomb(monkeypatch, 2_000)
    logs = {T: open_log(tmp_path / "t"), U: open_log(tmp_path / "u")}
    broker = LongAppendsBroker(logs)
    first = started(broker.append([(T, bomb.data)]))
    await asyncio.to_thread(bomb.is_large.wait, 10)
    second = started(broker.append([(U, LONG)]))
    behind = started(broker.append([(T, batch(1))]))
    await settled()
    bomb.others_wait.set()

    assert said(await second) == [(ErrorCode.NONE, 0)]

    assert (first.done(), behind.done()) == (False, False)
    bomb.others_are_served.set()
    assert said(await first) == [(ErrorCode.INVALID_RECORD, -1)]
    assert said(await behind) == [(ErrorCode.NONE, 0)]


async def test_a_stop_ends_the_unpacking_at_the_next_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = SlowBomb(monkeypatch, 2_000)
    logs = {T: open_log(tmp_path / "t"), U: open_log(tmp_path / "u")}
    broker = LongAppendsBroker(logs)
    asked = started(broker.append([(T, bomb.data)]))
    await asyncio.to_thread(bomb.is_large.wait, 10)

    broker.appends.shutdown()
    assert said(await asked) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    await settled()
    given = bomb.given
    bomb.others_wait.set()

    assert said(await broker.append([(U, LONG)])) == [(ErrorCode.NONE, 0)]
    assert bomb.given <= given + 1
