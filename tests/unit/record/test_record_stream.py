"""Records that are unpacked piece by piece: what is read, and how little is held meanwhile."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.append.append_preparation import Preparation
from kbroker.log.append.append_rules import AppendPlace, AppendRules
from kbroker.log.append.log_append import open_batch
from kbroker.log.partition.time_lookup import TimedBatch
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.record.codecs import payload
from kbroker.record.compression import GZIP, LZ4, NONE, READER_MAX_BYTES, SNAPPY, ZSTD, plain_pieces
from kbroker.record.conversion import down_convert
from kbroker.record.default_record import Record
from kbroker.record.legacy_record import any_records
from kbroker.record.record_batch import (
    HEADER_SIZE,
    BatchOptions,
    build,
    plain_records,
    read_header,
    record_stream,
    records,
)
from kbroker.record.record_stream import Pace, RecordStream
from kbroker.record.record_walk import walk_records
from kbroker.record.stream_walk import first_record_at, walk_stream

MANY = [
    Record(
        index,
        1_000 + index * 7 % 100,
        None if index % 3 else b"key",
        b"v" * (index * 37 % 300),
        (("h", b"1"),) if index % 5 == 0 else (),
    )
    for index in range(300)
]
SEVERAL_PIECES = [Record(n, n, None if n == 29 else b"k", b"v" * 100_000) for n in range(30)]
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
RULES = AppendRules.of(TopicConfig(), walks_records=True)


@cache
def large(codec: int) -> bytes:
    """A batch of a record of 80 MB and one of few bytes."""
    records_of_both = [Record(0, 10, b"k", b"x" * 80_000_000), Record(1, 20, None, b"last")]
    return build(records_of_both, options=BatchOptions(compression=codec))


def cut(plain: bytes, size: int) -> Iterator[bytes]:
    return (plain[at : at + size] for at in range(0, len(plain), size))


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1_000, 10_000])
def test_records_in_pieces_are_those_of_the_whole(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.record.piece_stream._LEAST_MORE_BYTES", 1)
    monkeypatch.setattr("kbroker.record.record_stream._SHORT_BYTES", 50)
    monkeypatch.setattr("kbroker.record.stream_walk._RETRIED_BYTES", 500)
    batch = build(MANY)
    header, plain = read_header(batch), batch[HEADER_SIZE:]

    read = RecordStream(cut(plain, size))

    assert [read.read(0, header.base_timestamp) for _ in MANY] == MANY
    read.check_end()
    walked, _ = walk_records(header, plain, len(MANY))
    assert walk_stream(header, RecordStream(cut(plain, size))) == walked


@pytest.mark.parametrize("size", [30, 400])
@pytest.mark.parametrize("kept", [-1, -200, 1])
def test_records_cut_short_are_refused_wherever_pieces_end(
    size: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.record.piece_stream._LEAST_MORE_BYTES", 1)
    monkeypatch.setattr("kbroker.record.record_stream._SHORT_BYTES", 50)
    batch = build(MANY)

    with pytest.raises(KafkaError, match="INVALID_RECORD"):
        walk_stream(read_header(batch), RecordStream(cut(batch[HEADER_SIZE:kept], size)))


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_last_record_are_refused(codec: int) -> None:
    batch = build(MANY, options=BatchOptions(compression=codec))
    header = read_header(batch)
    fewer = header._replace(record_count=299, last_offset_delta=298)

    with pytest.raises(KafkaError, match="after the last record"):
        walk_stream(fewer, record_stream(header, batch))


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_larger_than_any_piece_is_passed_over_in_little_memory(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    more = RecordStream.more

    def watched(stream: RecordStream) -> bool:
        found = more(stream)
        held.append(len(stream.held))
        return found

    monkeypatch.setattr(RecordStream, "more", watched)
    batch = large(codec)
    header = read_header(batch)

    walked = walk_stream(header, record_stream(header, batch))

    assert walked == (10, 20, 1, 0)
    assert max(held) <= 3 * payload.PIECE_BYTES
    assert first_record_at(header, record_stream(header, batch), 11, 0) == (20, 1)


@pytest.mark.parametrize("codec", CODECS)
def test_pieces_are_small_however_much_there_is(codec: int) -> None:
    batch = large(codec)

    sizes = [len(piece) for piece in plain_pieces(codec, batch[HEADER_SIZE:])]

    assert max(sizes) <= 2 * payload.PIECE_BYTES
    assert sum(sizes) == len(plain_records(read_header(batch), batch, READER_MAX_BYTES))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_an_80_mb_record_is_stored_found_read_and_converted(codec: int) -> None:
    batch = bytearray(large(codec))
    header = read_header(batch)
    rules = RULES._replace(max_message_bytes=10_000_000)

    opened = open_batch(batch, header, TopicPartition("t", 0), rules, 0)

    assert opened.max_timestamp == 20
    found = TimedBatch(header, bytes(batch), 11, 0).search()
    assert found is not None
    assert found.offset == 1
    assert [len(record.value or b"") for record in records(batch)] == [
        80_000_000,
        4,
    ]
    assert plain_records(header, batch, READER_MAX_BYTES)[-5:] == b"last\0"


@pytest.mark.parametrize("codec", [LZ4])
def test_a_batch_with_an_80_mb_record_is_converted_for_old_clients(codec: int) -> None:
    batch = large(codec)

    converted = down_convert(batch, 1, 0, 1_000_000)

    assert converted.next_offset == 2
    assert [len(record.value or b"") for record in any_records(converted.records)] == [
        80_000_000,
        4,
    ]


def unpacked_by(work: Callable[[Pace], object]) -> int:
    told: list[int] = []
    work(told.append)
    assert max(told) <= 2 * payload.PIECE_BYTES
    return sum(told)


@pytest.mark.parametrize("codec", [NONE, GZIP, ZSTD])
def test_whoever_unpacks_on_a_worker_thread_tells_of_each_piece(codec: int) -> None:
    batch = build(SEVERAL_PIECES, options=BatchOptions(compression=codec))
    header = read_header(batch)
    plain = len(build(SEVERAL_PIECES)) - HEADER_SIZE
    rules = RULES._replace(max_message_bytes=10_000_000)
    place = AppendPlace(TopicPartition("t", 0), 0, 0, 0)

    def prepare(pace: Pace, **changes: Any) -> None:
        own = rules._replace(**changes)
        Preparation(bytearray(batch), AppendOrigin.CLIENT, own, place).run(pace)

    def search(pace: Pace) -> None:
        TimedBatch(header, batch, 29, 0).search(pace)

    def refuse(pace: Pace, **changes: Any) -> None:
        with pytest.raises(KafkaError):
            prepare(pace, **changes)

    keyless_too = partial(refuse, is_compacted=True)
    early_too = partial(refuse, timestamp_before_max_ms=-4)
    assert unpacked_by(prepare) == plain
    assert unpacked_by(partial(prepare, compression=LZ4)) == 2 * plain
    assert unpacked_by(keyless_too) > plain
    assert unpacked_by(early_too) > plain
    assert unpacked_by(search) == plain


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_a_converter_tells_of_each_piece(codec: int) -> None:
    batch = build(SEVERAL_PIECES, options=BatchOptions(compression=codec))

    told = unpacked_by(lambda pace: down_convert(batch, 1, 0, 1 << 24, pace))

    assert told == len(build(SEVERAL_PIECES)) - HEADER_SIZE


@pytest.mark.parametrize("first_offset", [0, 1], ids=["in place", "renumbered"])
def test_a_batch_that_gets_another_codec_is_not_held_whole(first_offset: int) -> None:
    entries = [Record(first_offset + n, 1, b"k", bytes(1_000_000)) for n in range(40)]
    batch = bytearray(build(entries, base_offset=0, options=BatchOptions(compression=GZIP)))
    header = read_header(batch)._replace(last_offset_delta=39)
    rules = RULES._replace(max_message_bytes=10_000_000, compression=ZSTD)

    tracemalloc.start()
    try:
        opened = open_batch(batch, header, TopicPartition("t", 0), rules, 0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [record.offset for record in records(opened.records)] == list(range(40))
    assert peak < 16_000_000
