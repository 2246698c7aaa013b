"""Produce of old versions, over a real log: the same answers on the loop and on a thread."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.append.append_preparation import Preparation, Prepared
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.compression import GZIP, NONE
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import build
from kbroker.record.record_stream import Pace
from kbroker.replication.partitions.produce_result import PartitionProduceResult
from tests.fakes.brokers.long_appends_broker import LongAppendsBroker
from tests.fakes.logs.log_maker import NOW_MS, open_log

WHERE = TopicPartition("t", 0)


class OneLog:
    """A broker with one partition, which it leads."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.cluster = LongAppendsBroker({WHERE: log})

    def __call__(self, data: bytes, where: TopicPartition = WHERE) -> PartitionProduceResult:
        (result,) = asyncio.run(self.cluster.append([(where, data)], AppendOrigin.OLD_CLIENT))
        assert isinstance(result, PartitionProduceResult)
        return result

    def stored(self) -> list[tuple[int, int, Record]]:
        """(format, codec, record) of all records."""
        data = self.log.read(0, 1 << 22, FetchIsolation.LOG_END).records.read()
        found = []
        position = 0
        while position < len(data):
            header = read_any_header(data, position)
            records = any_records(data, position)
            found += [(header.magic, header.compression, record) for record in records]
            position += header.size_bytes
        return found


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each set that was prepared beforehand: whether that was on another thread."""
    seen = []
    run = Preparation.run

    def run_and_note(self: Preparation, pace: Pace) -> Prepared:
        seen.append(threading.current_thread() is not threading.main_thread())
        return run(self, pace)

    monkeypatch.setattr(Preparation, "run", run_and_note)
    return seen


def records(count: int = 3, size: int = 10) -> list[Record]:
    return [Record(i, NOW_MS + i, b"k", b"%d" % (i % 10) * size) for i in range(count)]


@pytest.mark.parametrize(
    ("data", "converted"),
    [
        (build_legacy(records(), 1), []),
        (build_legacy(records(), 1, GZIP), [True]),
        (build_legacy(records(300, 100), 1), [True]),
        (build(records(300, 100)), []),
        (b"", []),
    ],
    ids=["small", "compressed", "large", "new batch", "nothing"],
)
def test_what_may_take_long_is_converted_on_another_thread(
    tmp_path: Path, threads: list[bool], data: bytes, converted: list[bool]
) -> None:
    assert OneLog(open_log(tmp_path))(data).error_code is ErrorCode.NONE
    assert threads == converted


@pytest.mark.parametrize("codec", [NONE, GZIP], ids=["none", "gzip"])
@pytest.mark.parametrize("magic", [0, 1])
def test_the_log_is_the_same_as_without_a_thread(tmp_path: Path, magic: int, codec: int) -> None:
    data = build_legacy(records(300, 100), magic, codec)
    directly = open_log(tmp_path / "directly")
    directly.append_as_leader(bytearray(data), 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)
    on_thread = OneLog(open_log(tmp_path / "on-thread"))

    first, second = on_thread(data), on_thread(data)

    assert (first.base_offset, second.base_offset) == (0, 300)
    (expected,) = (tmp_path / "directly").glob("*.log")
    (found,) = (tmp_path / "on-thread").glob("*.log")
    assert found.read_bytes().startswith(expected.read_bytes())


def test_topics_of_an_old_format_are_converted_for_too(tmp_path: Path, threads: list[bool]) -> None:
    broker = OneLog(open_log(tmp_path, message_format_version="0.10.0"))

    broker(build_legacy(records(), 0, GZIP))

    assert threads == [True]
    assert [(magic, codec) for magic, codec, _ in broker.stored()] == [(1, GZIP)] * 3


def test_the_brokers_time_is_set_and_told(tmp_path: Path) -> None:
    broker = OneLog(open_log(tmp_path, message_timestamp_type="LogAppendTime"))

    result = broker(build_legacy(records(), 1, GZIP))

    assert result.log_append_time_ms == NOW_MS
    assert {record.timestamp for _, _, record in broker.stored()} == {NOW_MS}


def test_the_topics_codec_counts(tmp_path: Path) -> None:
    broker = OneLog(open_log(tmp_path, compression_type="uncompressed"))

    broker(build_legacy(records(), 1, GZIP))

    assert {codec for _, codec, _ in broker.stored()} == {NONE}


REFUSED = {
    "no key": ({"cleanup_policy": ("compact",)}, [Record(0, NOW_MS, None, b"v")], 87),
    "too old": ({"message_timestamp_before_max_ms": 10}, [Record(0, NOW_MS - 99, b"k", b"v")], 32),
    "too large": ({"max_message_bytes": 100}, records(50, 100), 10),
}


@pytest.mark.parametrize(("settings", "entries", "code"), REFUSED.values(), ids=REFUSED)
def test_the_topics_refusals_hold(
    tmp_path: Path, settings: dict[str, Any], entries: list[Record], code: int
) -> None:
    broker = OneLog(open_log(tmp_path, **settings))

    assert broker(build_legacy(entries, 1, GZIP)).error_code == code
    assert broker.log.log_end_offset == 0


def test_a_set_that_cannot_be_read_spoils_no_other(tmp_path: Path) -> None:
    other = TopicPartition("u", 0)
    broker = LongAppendsBroker({WHERE: open_log(tmp_path / "t"), other: open_log(tmp_path / "u")})
    good = build_legacy(records(), 1, GZIP)

    results = asyncio.run(
        broker.append([(WHERE, good[:-1] + b"\xff"), (other, good)], AppendOrigin.OLD_CLIENT)
    )

    assert [one.error_code for one in results] == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]
