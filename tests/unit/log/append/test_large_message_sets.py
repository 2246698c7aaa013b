"""Messages of old formats that unpack to much: taken, stored and found by time in little memory."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.append.append_preparation import Preparation
from kbroker.log.append.append_rules import AppendPlace, AppendRules
from kbroker.log.append.log_append import OpenedBatch
from kbroker.log.append.trusted_append import TrustedBatches
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.model import TopicPartition
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.compression import GZIP, LZ4, NONE
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, first_offset, read_any_header
from kbroker.record.record_batch import BatchOptions, build
from tests.fakes.logs.log_maker import NOW_MS, open_log

PLACE = AppendPlace(TopicPartition("t", 0), 100, 3, NOW_MS)
FORMAT_VERSION = {0: "0.9.0", 1: "0.10.0", 2: "3.0-IV1"}
LITTLE_BYTES = 12 * PIECE_BYTES
MANY = 40_000
HUGE = 70_000_000  # of one value: above what was once taken of old formats


def small_records(count: int = MANY) -> Iterator[Record]:
    return (Record(n, NOW_MS + n % 7, b"k", b"v" * 40) for n in range(count))


@pytest.fixture(scope="module")
def many() -> dict[tuple[int, int], bytes]:
    return {
        (magic, codec): build_legacy(small_records(), magic, codec)
        for magic, codec in ((0, GZIP), (1, GZIP), (1, NONE))
    } | {(2, GZIP): build(small_records(), options=BatchOptions(compression=GZIP))}


@pytest.fixture(scope="module")
def huge() -> bytes:
    return build_legacy(
        [Record(0, NOW_MS, b"k", bytes(HUGE)), Record(1, NOW_MS + 9, None, b"last")], 1, GZIP
    )


def prepared(
    data: bytes, magic: int, pace: Callable[[int], None] | None = None, **settings: Any
) -> OpenedBatch | TrustedBatches:
    config = TopicConfig(message_format_version=FORMAT_VERSION[magic], **settings)
    rules = AppendRules.of(config, walks_records=True)
    origin = AppendOrigin.OLD_CLIENT
    return Preparation(bytearray(data), origin, rules, PLACE).run(pace).ready


def most_held(work: Callable[[], Any]) -> int:
    """Bytes at the worst moment, beside what is there before and what comes out."""
    tracemalloc.start()
    try:
        made = work()
        left, most = tracemalloc.get_traced_memory()
        del made
        return most - left
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("source", "codec", "target"),
    [
        (1, GZIP, 2),
        (0, GZIP, 2),
        (1, GZIP, 1),
        (1, GZIP, 0),
        (2, GZIP, 1),
        (1, NONE, 2),
        (1, NONE, 1),
    ],
)
def test_many_messages_are_prepared_one_by_one_and_in_turns(
    source: int, codec: int, target: int, many: dict[tuple[int, int], bytes]
) -> None:
    paces: list[int] = []
    objects: list[int] = []

    def pace(size_bytes: int) -> None:
        paces.append(size_bytes)
        objects.append(sys.getallocatedblocks())

    prepared(many[source, codec], target, pace, max_message_bytes=1 << 26)

    assert max(objects) - min(objects) < MANY // 4
    assert max(paces) <= 2 * PIECE_BYTES
    assert sum(paces) > MANY * 45


def test_who_is_wanted_no_more_ends_amid_the_messages(
    many: dict[tuple[int, int], bytes],
) -> None:
    class EndedError(Exception):
        pass

    def end(_: int) -> None:
        raise EndedError

    for data in many.values():
        with pytest.raises(EndedError):
            prepared(data, 1, end, max_message_bytes=1 << 26)


@pytest.mark.parametrize("target", [1, 2])
def test_a_message_of_any_size_is_passed_over_in_little_memory(target: int, huge: bytes) -> None:
    held = most_held(lambda: prepared(huge, target))

    assert held < LITTLE_BYTES


@pytest.mark.parametrize("target", [0, 1, 2])
def test_a_message_that_unpacks_to_much_is_stored_and_found_by_time(
    tmp_path: Path, target: int, huge: bytes
) -> None:
    log = open_log(tmp_path, message_format_version=FORMAT_VERSION[target])

    info = log.append_as_leader(bytearray(huge), 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)

    assert (info.first_offset, info.last_offset) == (0, 1)
    data = log.read(0, 1 << 20, FetchIsolation.LOG_END).records.read()
    assert [len(each.value or b"") for each in any_records(data)] == [HUGE, 4]
    header = read_any_header(data)
    assert first_offset(header, data) == 0
    found = TimedBatch(header, bytes(data), NOW_MS + 1, 0).search()
    assert (found.offset if found else None) == (1 if target else None)


def test_times_are_looked_up_in_little_memory_and_in_turns(huge: bytes) -> None:
    paces: list[int] = []
    batch = TimedBatch(read_any_header(huge), huge, NOW_MS + 1, 0)

    held = most_held(lambda: batch.search(paces.append))

    assert held < LITTLE_BYTES
    assert max(paces) <= 2 * PIECE_BYTES


def test_what_a_message_becomes_may_not_be_larger_than_the_topic_allows(huge: bytes) -> None:
    lz4_bytes = HUGE // 255  # below which it does not come

    assert len(huge) < lz4_bytes
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        prepared(huge, 2, max_message_bytes=lz4_bytes, compression_type="lz4")
    prepared(huge, 2, max_message_bytes=lz4_bytes, compression_type="gzip")
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        prepared(huge, 2, compression_type="uncompressed")


def test_a_message_of_lz4_that_unpacks_to_much_is_stored(tmp_path: Path) -> None:
    data = build_legacy([Record(0, -1, None, bytes(HUGE))], 0, LZ4)
    log = open_log(tmp_path)

    log.append_as_leader(bytearray(data), 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)

    (read,) = any_records(log.read(0, 1 << 20, FetchIsolation.LOG_END).records.read())
    assert read.value == bytes(HUGE)
