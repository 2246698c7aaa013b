"""Records in formats 0 and 1: what goes in comes out, a consumer of an old format gets every record
once, and any bytes of an old producer are taken or refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.errors import KafkaError
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.conversion import down_convert, has_compressed
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, is_intact, read_any_header
from kbroker.record.message_stream import MessageStream
from kbroker.record.record_batch import (
    BatchHeader,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.logs.log_maker import NOW_MS, open_log

maybe_bytes = st.none() | st.binary(max_size=60)
rows = st.lists(
    st.tuples(st.integers(1, 3), st.integers(-1, 2**62), maybe_bytes, maybe_bytes),
    min_size=1,
    max_size=8,
)
old_codecs = st.integers(0, 3)
magics = st.integers(0, 1)


def placed(
    given_rows: list[tuple[int, int, bytes | None, bytes | None]], start: int
) -> list[Record]:
    """Records whose offsets rise by the first number of each row."""
    offset = start - 1
    records = []
    for step, timestamp, key, value in given_rows:
        offset += step
        records.append(Record(offset, timestamp, key, value))
    return records


def headers(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    position = 0
    while position < len(data):
        header = read_any_header(data, position)
        assert is_intact(header, data[position:])
        yield position, header
        position += header.size_bytes


def read(data: bytes) -> list[Record]:
    return [record for position, _ in headers(data) for record in any_records(data, position)]


def in_format(records: list[Record], magic: int) -> list[Record]:
    return [
        record._replace(headers=(), timestamp=record.timestamp if magic else -1)
        for record in records
    ]


@given(rows, magics, old_codecs, st.integers(0, 2**61))
def test_old_messages_come_back(given_rows: list, magic: int, codec: int, start: int) -> None:  # type: ignore[type-arg]
    records = placed(given_rows, start)

    built = build_legacy(records, magic, codec)

    assert read(built) == in_format(records, magic)


# A log: batches of records, in any format and codec, and markers (None) between them.
logs = st.lists(st.none() | st.tuples(rows, st.integers(0, 2), old_codecs), min_size=1, max_size=5)


def stored_log(parts: list) -> tuple[bytes, list[Record]]:  # type: ignore[type-arg]
    data = b""
    records: list[Record] = []
    offset = 0
    for part in parts:
        if part is None:
            marker = ControlRecord(True, 0)
            options = BatchOptions(producer_id=1)
            data += build_marker(marker, NOW_MS, base_offset=offset, options=options)
            offset += 1
            continue
        given_rows, magic, codec = part
        entries = placed(given_rows, offset)
        if magic == 2:
            data += build(entries, base_offset=offset, options=BatchOptions(compression=codec))
        else:
            data += build_legacy(entries, magic, codec)
        records += in_format(entries, magic)
        offset = entries[-1].offset + 1
    return data, records


@given(logs, magics, st.integers(1, 400))
def test_an_old_consumer_gets_every_record_once(parts: list, magic: int, limit: int) -> None:  # type: ignore[type-arg]
    data, expected = stored_log(parts)
    found: list[Record] = []
    offset = 0
    end_offset = [header.next_offset for _, header in headers(data)][-1]
    while offset < end_offset:
        position, header = next((at, one) for at, one in headers(data) if one.last_offset >= offset)
        slice_ = data[position : position + max(limit, header.size_bytes)]
        converted = down_convert(slice_, magic, offset, len(slice_))
        come = [record for record in read(converted.records) if record.offset >= offset]
        next_offset = come[-1].offset + 1 if come else converted.next_offset
        assert next_offset > offset
        found += come
        offset = next_offset

    assert found == [one._replace(timestamp=one.timestamp if magic else -1) for one in expected]


@given(st.binary(max_size=300), magics)
def test_any_bytes_are_converted_or_refused(data: bytes, magic: int) -> None:
    with suppress(KafkaError):
        down_convert(data, magic, 0, 100)
    has_compressed(data)


sets = st.binary(max_size=200) | st.builds(
    lambda given_rows, magic, codec: build_legacy(placed(given_rows, 0), magic, codec),
    rows,
    magics,
    old_codecs,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(sets, st.integers(0, 10_000), st.integers(0, 255)), max_size=8))
def test_any_bytes_of_an_old_producer_are_taken_or_refused(given_sets: list) -> None:  # type: ignore[type-arg]
    with TemporaryDirectory() as directory:
        log = open_log(Path(directory) / "log")
        for data, where, bits in given_sets:
            spoiled = bytearray(data)
            if spoiled:
                spoiled[where % len(spoiled)] ^= bits
            before = log.log_end_offset
            try:
                info = log.append_as_leader(spoiled, 0, NOW_MS, origin=AppendOrigin.OLD_CLIENT)
            except KafkaError:
                assert log.log_end_offset == before
            else:
                assert log.log_end_offset == max(before, info.last_offset + 1)

        offsets: list[int] = []
        while len(offsets) < log.log_end_offset:  # times far apart make several segments
            found = log.read(len(offsets), 1 << 20, FetchIsolation.LOG_END).records.read()
            assert found
            offsets += [record.offset for record in read(found)]
        assert offsets == list(range(log.log_end_offset))
        log.close()


@given(rows, magics, st.integers(0, 2**31), st.binary(max_size=4), st.integers(1, 90))
def test_what_is_wrapped_gives_messages_or_a_refusal(
    given_rows: list,  # type: ignore[type-arg]
    magic: int,
    place: int,
    changed: bytes,
    piece_bytes: int,
) -> None:
    plain = bytearray(build_legacy(placed(given_rows, 0), magic))
    at = place % len(plain)
    plain[at : at + len(changed)] = changed
    del plain[len(plain) - place % 7 :]
    pieces = (plain[begin : begin + piece_bytes] for begin in range(0, len(plain), piece_bytes))

    with suppress(KafkaError):
        found = MessageStream(pieces, magic).walk()
        whole = MessageStream(iter((bytes(plain),)), magic)
        assert len(list(whole.records(found.record_count))) == found.record_count
