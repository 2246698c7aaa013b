"""Records of a segment as rows: what a Java consumer would see, and what is raised where it could
not go on.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from kbroker.log.disk.file_system import StorageError
from kbroker.pipeline.envelope import RECORD_COLUMNS
from kbroker.pipeline.logdir.columns import arrow_schema, record_columns
from kbroker.pipeline.logdir.decode import batch_groups, record_decoder, segment_pieces
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.record_columns import readable_record_batches, record_batches
from kbroker.pipeline.logdir.decode.tuple_decoder import TupleDecoder
from kbroker.pipeline.logdir.decode.varint_arrays import UnprovenError
from kbroker.pipeline.logdir.segment_task import AbortedTransaction, ReadOptions
from kbroker.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    assign_offset,
    build,
    build_marker,
    join_batch,
    read_header,
)
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.unit.pipeline.logdir.segment_rows import ALL, TASK, expected, read, rows, stored

NOW_MS = 1_790_000_000_000
TIMES = ("offset", "timestamp")
RECORDS = [
    Record(10, NOW_MS, b"k0", b"v0"),
    Record(11, NOW_MS + 5, None, b"v1", (("h", b"1"), ("h", None))),
    Record(12, NOW_MS - 70_000, b"k2", None, (("", b""),)),
    Record(13, NOW_MS + 9, b"", b""),
    Record(14, NOW_MS + 1, b"k4", b"x" * 300_000),
]
PLAIN = build(RECORDS, base_offset=10)


def batch_of(offset: int, count: int, options: BatchOptions | None = None) -> bytes:
    entries = [Record(offset + i, NOW_MS + i, b"k%d" % i, b"v" * (i % 7)) for i in range(count)]
    return build(entries, base_offset=offset, options=options or BatchOptions())


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_every_codec_gives_the_same_records(codec: int) -> None:
    data = build(RECORDS, base_offset=10, options=BatchOptions(compression=codec))

    found = read(data)

    assert [row["value"] for row in found] == [record.value for record in RECORDS]
    assert found == expected(data)


def test_rows_have_the_types_of_the_column_table() -> None:
    disk, task = stored(PLAIN)

    (batch,) = record_batches(disk, task, ALL)

    assert batch.schema == arrow_schema(record_columns(ALL.columns))


def test_null_keys_values_and_headers_stay_null() -> None:
    found = read(PLAIN, options=ReadOptions(columns=("key", "value", "headers")))

    assert found[1]["key"] is None
    assert found[2]["value"] is None
    assert found[3] == {"key": b"", "value": b"", "headers": None}
    assert found[1]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]


def test_header_keys_that_are_no_utf8_are_replaced_as_java_does() -> None:
    data = build([Record(0, NOW_MS, None, None, (("a\udcff", b""), ("größe", b"2")))])

    (row,) = read(data, options=ReadOptions(columns=("headers",)))

    assert [header["key"] for header in row["headers"]] == ["a\ufffd", "größe"]


def test_log_append_time_counts_for_every_record() -> None:
    options = BatchOptions(flags=TIMESTAMP_TYPE_BIT, max_timestamp=NOW_MS + 777)
    data = build(RECORDS, base_offset=10, options=options)

    found = read(data, options=ReadOptions(columns=("timestamp", "timestampType")))

    assert found == [{"timestamp": (NOW_MS + 777) * 1000, "timestampType": 1}] * 5


def test_times_of_the_broker_and_of_producers_stand_beside_each_other() -> None:
    stamped = BatchOptions(flags=TIMESTAMP_TYPE_BIT, max_timestamp=NOW_MS + 777)
    data = batch_of(0, 3) + batch_of(3, 2, stamped) + batch_of(5, 2)
    options = ReadOptions(columns=("timestamp", "timestampType"))

    assert read(data, options=options) == expected(data, options=options)


def test_a_delete_horizon_does_not_move_times() -> None:
    options = BatchOptions(flags=DELETE_HORIZON_BIT, base_timestamp=NOW_MS + 86_400_000)
    data = build(RECORDS, base_offset=10, options=options)

    found = read(data, options=ReadOptions(columns=("timestamp",)))

    assert [row["timestamp"] for row in found] == [record.timestamp * 1000 for record in RECORDS]


def test_gaps_that_compaction_left_are_no_rows() -> None:
    gap = [Record(20, NOW_MS, b"a", b"1"), Record(25, NOW_MS, b"b", b"2")]
    data = build(gap, base_offset=17, options=BatchOptions(last_offset=29)) + build(
        [], base_offset=30, options=BatchOptions(last_offset=34)
    )

    for columns in (("offset",), ("offset", "value"), ("topic", "offset", "sequence")):
        assert [row["offset"] for row in read(data, options=ReadOptions(columns=columns))] == [
            20,
            25,
        ]
    assert len(read(data, options=ReadOptions(columns=("topic",)))) == 2


@pytest.mark.parametrize("columns", [("offset",), ("topic",), ("offset", "timestamp"), ("value",)])
@pytest.mark.parametrize("bounds", [(0, 2**62), (3, 12), (12, 13), (5, 5), (40, 90)])
def test_only_offsets_of_the_task_are_rows(
    columns: tuple[str, ...], bounds: tuple[int, int]
) -> None:
    data = batch_of(0, 10) + batch_of(10, 10) + batch_of(20, 10)
    task = replace(TASK, start_offset=bounds[0], end_offset=bounds[1])
    options = ReadOptions(columns=columns)

    assert read(data, task, options) == expected(data, task, options)


def test_offsets_are_cut_in_batches_whose_header_does_not_tell_them() -> None:
    gap = [Record(20, NOW_MS, b"a", b"1"), Record(25, NOW_MS, b"b", b"2")]
    data = build(gap, base_offset=17, options=BatchOptions(last_offset=29))
    task = replace(TASK, start_offset=21, end_offset=30)

    assert read(data, task, ReadOptions(columns=("topic",))) == [{"topic": "orders"}]


@pytest.mark.parametrize("columns", [("offset",), ("key", "timestamp")])
@pytest.mark.parametrize("flags", [0, TIMESTAMP_TYPE_BIT])
def test_only_times_that_were_asked_for_are_rows(columns: tuple[str, ...], flags: int) -> None:
    data = b"".join(batch_of(at, 10, BatchOptions(flags=flags)) for at in (0, 10, 20))
    options = ReadOptions(columns=columns, min_timestamp_ms=NOW_MS + 3, max_timestamp_ms=NOW_MS + 6)

    found = read(data, options=options)

    assert found == expected(data, options=options)
    assert len(found) == (0 if flags else 12)


def transaction(producer_id: int, offset: int, count: int) -> bytes:
    options = BatchOptions(
        flags=TRANSACTIONAL_BIT, producer_id=producer_id, producer_epoch=2, base_sequence=5
    )
    return batch_of(offset, count, options)


def marker(producer_id: int, offset: int, *, is_commit: bool) -> bytes:
    options = BatchOptions(producer_id=producer_id, producer_epoch=2)
    return build_marker(ControlRecord(is_commit, 0), NOW_MS, base_offset=offset, options=options)


TRANSACTIONS = (
    transaction(7, 0, 2)
    + transaction(8, 2, 2)
    + marker(7, 4, is_commit=False)
    + batch_of(5, 1)
    + marker(8, 6, is_commit=True)
    + transaction(7, 7, 1)
    + marker(7, 8, is_commit=True)
)


def test_markers_and_aborted_records_are_left_out() -> None:
    task = replace(TASK, aborted=(AbortedTransaction(7, 0, 4),))

    found = read(TRANSACTIONS, task)

    assert [row["offset"] for row in found] == [2, 3, 5, 7]
    assert found == expected(TRANSACTIONS, task)


def test_markers_are_rows_when_asked_for_and_aborted_records_are_not() -> None:
    task = replace(TASK, aborted=(AbortedTransaction(7, 0, 4),))
    options = ReadOptions(columns=("offset", "isControl", "producerId"), includes_control=True)

    found = read(TRANSACTIONS, task, options)

    assert [row["offset"] for row in found if row["isControl"]] == [4, 6, 8]
    assert found == expected(TRANSACTIONS, task, options)


def test_only_transactional_batches_are_aborted_from_the_first_on() -> None:
    idempotent = BatchOptions(producer_id=7, producer_epoch=2, base_sequence=5)
    data = transaction(7, 0, 1) + batch_of(1, 1, idempotent) + marker(7, 2, is_commit=False)
    task = replace(TASK, aborted=(AbortedTransaction(7, 0, 2),))

    assert [row["offset"] for row in read(data, task)] == [1]


def test_sequences_wrap() -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0, base_sequence=2**31 - 2)
    data = batch_of(0, 4, options)

    for columns in (("sequence",), ("sequence", "value")):
        found = read(data, options=ReadOptions(columns=columns))
        assert [row["sequence"] for row in found] == [2**31 - 2, 2**31 - 1, 0, 1]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4])
def test_old_formats_are_rows_between_new_ones(magic: int, codec: int) -> None:
    old = [Record(100 + i, NOW_MS + i if magic else -1, None, b"v%d" % i) for i in range(5)]
    data = batch_of(90, 3) + build_legacy(old, magic, codec) + batch_of(105, 3)

    found = read(data)

    assert [row["offset"] for row in found] == [*range(90, 93), *range(100, 108)]
    assert found == expected(data)


def test_a_wrapper_is_cut_at_the_end_of_the_range() -> None:
    old = [Record(100 + i, NOW_MS + i, None, b"v%d" % i) for i in range(5)]
    task = replace(TASK, start_offset=101, end_offset=103)

    found = read(build_legacy(old, 1, GZIP), task, ReadOptions(columns=("offset",)))

    assert [row["offset"] for row in found] == [101, 102]


def test_no_batch_of_rows_is_larger_than_asked_for_or_empty() -> None:
    data = batch_of(0, 1000) + batch_of(1000, 10) + build([], base_offset=1010)
    disk, task = stored(data)

    sizes = [
        batch.num_rows
        for batch in record_batches(disk, task, ReadOptions(columns=("value",), rows_per_batch=300))
    ]

    assert sum(sizes) == 1010
    assert 0 < min(sizes) <= max(sizes) <= 300


def test_large_records_come_in_fewer_rows() -> None:
    records = [Record(i, NOW_MS, None, bytes(1000)) for i in range(100)]
    disk, task = stored(build(records, base_offset=0))
    options = ReadOptions(columns=("value",), bytes_per_batch=10_240)

    sizes = [batch.num_rows for batch in record_batches(disk, task, options)]

    assert sizes == [10] * 10


def test_a_record_larger_than_a_batch_of_rows_comes_alone() -> None:
    records = [Record(i, NOW_MS, None, bytes(1000)) for i in range(3)]
    disk, task = stored(build(records, base_offset=0))
    options = ReadOptions(columns=("value",), bytes_per_batch=10)

    assert [batch.num_rows for batch in record_batches(disk, task, options)] == [1, 1, 1]


@pytest.mark.parametrize("piece_bytes", [1, 100, 333])
@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_pieces_of_any_size_give_the_same_rows(
    piece_bytes: int, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", piece_bytes)
    data = b"".join(batch_of(at * 10, at + 1, BatchOptions(compression=codec)) for at in range(10))

    assert read(data) == expected(data)


@pytest.mark.parametrize("room_bytes", [1, 80, 500, 10_000])
@pytest.mark.parametrize("rows", [4, 1000])
@pytest.mark.parametrize("codecs", [(ZSTD,), (NONE, ZSTD), (GZIP, LZ4, SNAPPY)])
def test_groups_are_cut_by_bytes_and_by_rows(
    room_bytes: int, rows: int, codecs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_groups, "ROOM_BYTES", room_bytes)
    monkeypatch.setattr(batch_groups, "GROUP_ROWS", rows)
    data = b"".join(
        batch_of(at * 10, at + 1, BatchOptions(compression=codecs[at % len(codecs)]))
        for at in range(10)
    )
    options = replace(ALL, rows_per_batch=4)

    assert read(data, options=options) == expected(data)


def test_a_stretch_of_a_segment_is_read_alone() -> None:
    first, second, third = batch_of(0, 3), batch_of(3, 3), batch_of(6, 3)
    disk, task = stored(first + second + third)
    task = replace(task, start_position=len(first), end_position=len(first + second))

    found = rows(record_batches(disk, task, ReadOptions(columns=("offset", "position"))))

    assert [row["offset"] for row in found] == [3, 4, 5]
    assert {row["position"] for row in found} == {len(first)}


def test_what_stands_behind_the_stretch_is_not_looked_at() -> None:
    disk, task = stored(batch_of(0, 3) + bytes(500))
    task = replace(task, end_position=task.end_position - 500)

    assert len(rows(record_batches(disk, task, ALL))) == 3


def failure(data: bytes, options: ReadOptions = ALL) -> tuple[list[int], DamagedBatchError]:
    """The offsets given before the damage, and what is raised."""
    disk, task = stored(data)
    found: list[int] = []
    try:
        for batch in record_batches(disk, task, options):
            found += batch.column("offset").to_pylist()
    except DamagedBatchError as error:
        return found, error
    pytest.fail("no damage was told")


@pytest.mark.parametrize("columns", [("offset",), ("offset", "value"), ("offset", "timestamp")])
def test_a_wrong_checksum_is_told_behind_the_records_before_it(columns: tuple[str, ...]) -> None:
    first, second = batch_of(0, 3), bytearray(batch_of(3, 3))
    second[-3] ^= 1
    data = first + second + batch_of(6, 3)

    found, error = failure(data, ReadOptions(columns=columns))

    assert found == [0, 1, 2]
    assert (error.position, error.offset) == (len(first), 3)
    assert error.end_position == len(first) + len(second)
    assert "00000000000000000000.log" in str(error)
    assert "checksum" in str(error)


def test_the_first_of_several_damages_is_told() -> None:
    spoilt, moved = bytearray(batch_of(0, 3)), bytearray(batch_of(3, 3))
    spoilt[-3] ^= 1
    assign_offset(moved, 0, 0, 0)

    _, first = failure(bytes(spoilt) + batch_of(3, 3) + moved)
    _, second = failure(batch_of(0, 3) + batch_of(3, 3) + moved + spoilt)

    assert first.position == 0
    assert "claims" in second.reason


def test_records_of_other_batches_can_be_had() -> None:
    second = bytearray(batch_of(3, 3))
    second[-3] ^= 1
    disk, task = stored(batch_of(0, 3) + second + batch_of(6, 3))
    told: list[DamagedBatchError] = []

    found = rows(readable_record_batches(disk, task, ReadOptions(columns=("offset",)), told.append))

    assert [row["offset"] for row in found] == [0, 1, 2, 6, 7, 8]
    assert [error.offset for error in told] == [3]


@pytest.mark.parametrize("cut", [1, 5, 40, 70])
def test_a_torn_batch_is_told(cut: int) -> None:
    first = batch_of(0, 3)

    found, error = failure(first + batch_of(3, 3)[:-cut])

    assert found == [0, 1, 2]
    assert error.position == len(first)
    assert error.end_position is None


@pytest.mark.parametrize("tail", [bytes(100), b"\x17" * 100, b"\xff" * 100])
def test_what_is_no_batch_is_told(tail: bytes) -> None:
    found, error = failure(batch_of(0, 3) + tail)

    assert found == [0, 1, 2]
    assert error.end_position is None


@pytest.mark.parametrize("offset", [2, 5, 0, -4])
def test_offsets_that_contradict_a_neighbour_are_told(offset: int) -> None:
    moved = bytearray(batch_of(3, 3))
    assign_offset(moved, 0, offset, 0)

    found, error = failure(batch_of(0, 3) + moved + batch_of(6, 3))

    assert found == [0, 1, 2][: len(found)]
    assert "claims the offsets" in error.reason


def test_a_batch_that_goes_on_where_the_one_before_ends_is_believed_against_the_next() -> None:
    moved = bytearray(batch_of(3, 3))
    assign_offset(moved, 0, 1, 0)
    disk, task = stored(batch_of(0, 3) + moved + batch_of(6, 3))
    told: list[DamagedBatchError] = []

    found = rows(readable_record_batches(disk, task, ReadOptions(columns=("offset",)), told.append))

    assert [row["offset"] for row in found] == [0, 1, 2, 6, 7, 8]
    assert [error.position for error in told] == [len(batch_of(0, 3))]


def test_of_two_behind_a_gap_that_contradict_each_other_none_is_believed() -> None:
    moved = bytearray(batch_of(3, 3))
    assign_offset(moved, 0, 12, 0)
    disk, task = stored(batch_of(0, 3) + batch_of(10, 3) + moved + batch_of(20, 3))
    told: list[DamagedBatchError] = []

    found = rows(readable_record_batches(disk, task, ReadOptions(columns=("offset",)), told.append))

    assert [row["offset"] for row in found] == [0, 1, 2, 20, 21, 22]
    assert [error.position for error in told] == [len(batch_of(0, 3))]


def test_offsets_do_not_go_back_behind_damage() -> None:
    spoilt = bytearray(batch_of(3, 3))
    spoilt[-3] ^= 1
    disk, task = stored(batch_of(0, 3) + spoilt + batch_of(0, 3) + batch_of(6, 3))

    found = rows(
        readable_record_batches(disk, task, ReadOptions(columns=("offset",)), lambda _: None)
    )

    assert [row["offset"] for row in found] == [0, 1, 2, 6, 7, 8]


def test_batches_behind_garbage_are_read() -> None:
    disk, task = stored(batch_of(0, 3) + b"\x17" * 100 + batch_of(6, 3) + batch_of(9, 3))

    found = rows(
        readable_record_batches(disk, task, ReadOptions(columns=("offset",)), lambda _: None)
    )

    assert [row["offset"] for row in found] == [0, 1, 2, 6, 7, 8, 9, 10, 11]


def test_a_batch_that_reaches_into_the_next_segment_is_told() -> None:
    disk, task = stored(batch_of(0, 3) + batch_of(3, 3), replace(TASK, segment_end_offset=5))

    with pytest.raises(DamagedBatchError, match="claims the offsets 3 to 5"):
        list(record_batches(disk, task, ALL))


def test_a_batch_before_its_segment_is_told() -> None:
    disk, task = stored(batch_of(3, 3), replace(TASK, segment_base_offset=4))

    with pytest.raises(DamagedBatchError):
        list(record_batches(disk, task, ALL))


def with_payload(payload: bytes, codec: int = NONE, count: int = 1) -> bytes:
    """A batch with a right checksum around any payload."""
    header = read_header(batch_of(3, 1))._replace(record_count=count, attributes=codec)
    header = header._replace(last_offset_delta=max(count, 1) - 1)
    return join_batch(header, payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x10\x00\x00\x00\x01\x01\x00",  # a length beyond the payload
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",  # a byte too many
        b"\x0c\x00\x00\x00\x08\x01\x00",  # a key beyond its record
        b"\x0c\x00\x00\x00\x01\x01\x02",  # a header that is not there
        b"\x0b\x00\x00\x00\x01\x01\x00",  # a negative length
        b"\x0d\x00\x00\x00\x01\x01\x00",  # the same, with all else right
        b"\x0e\x00\x00\x00\x01\x01\x01\x00",  # a negative count of headers
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",  # a header without key
        b"\xff" * 20,
    ],
)
def test_broken_records_behind_a_right_checksum_are_told(payload: bytes) -> None:
    found, error = failure(batch_of(0, 3) + with_payload(payload))

    assert found == [0, 1, 2]
    assert "INVALID_RECORD" in error.reason


def test_a_count_that_is_not_true_is_told() -> None:
    one = PLAIN[HEADER_SIZE:]

    assert failure(with_payload(one, count=4))[0] == []
    assert failure(with_payload(one, count=6))[0] == []
    assert failure(with_payload(one, count=2**31 - 1), ReadOptions(columns=("offset",)))[0] == []


def test_a_record_without_room_for_a_key_is_told() -> None:
    payload = b"\x06\x00\x00\x00" + build([Record(3, 0, b"long key", b"")])[HEADER_SIZE:]

    assert failure(with_payload(payload, count=2), ReadOptions(columns=TIMES))[0] == []


@pytest.mark.parametrize("count", [1000, 2**31 - 1])
@pytest.mark.parametrize("codec", [NONE, ZSTD])
def test_a_claimed_count_is_not_believed(count: int, codec: int) -> None:
    data = with_payload(batch_of(3, 1)[HEADER_SIZE:], codec, count)

    if codec and count == 1000:
        assert len(read(data, options=ReadOptions(columns=("topic",)))) == count  # it may be so
    else:
        assert failure(data, ReadOptions(columns=("offset",)))[0] == []


def test_a_batch_that_ends_before_it_begins_is_told() -> None:
    header = read_header(PLAIN)._replace(last_offset_delta=-1)

    assert "claims" in failure(join_batch(header, PLAIN[HEADER_SIZE:]))[1].reason


def test_a_bomb_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_groups, "ROOM_BYTES", 5_000)
    monkeypatch.setattr(batch_groups, "MAX_DECOMPRESSED_BYTES", 10_000)
    bomb = build([Record(3, NOW_MS, None, bytes(20_000))], base_offset=3,
                 options=BatchOptions(compression=ZSTD))  # fmt: skip

    found, error = failure(batch_of(0, 3, BatchOptions(compression=ZSTD)) + bomb)

    assert found == [0, 1, 2]
    assert "MESSAGE_TOO_LARGE" in error.reason


FAR_MS = (2**63 - 1) // 1000  # the last time that a TIMESTAMP holds


@pytest.mark.parametrize("wanted", [ALL, ReadOptions(columns=("offset", "timestampMs"))])
def test_a_time_that_no_timestamp_holds_stands_beside_it(wanted: ReadOptions) -> None:
    times = [-1, FAR_MS, FAR_MS + 1, 2**63 - 1, -FAR_MS, -FAR_MS - 1, -(2**63), NOW_MS]
    data = b"".join(build([Record(n, at, b"k", b"v")], base_offset=n) for n, at in enumerate(times))
    data += build_legacy([Record(8, 2**62, b"k", b"v")], 1)
    data += batch_of(9, 2, BatchOptions(flags=TIMESTAMP_TYPE_BIT, max_timestamp=2**62))

    found = read(data, options=wanted)

    assert found == expected(data, options=wanted)
    assert [row["timestampMs"] for row in found] == [
        None, None, FAR_MS + 1, 2**63 - 1, None, -FAR_MS - 1, -(2**63), None, *[2**62] * 3,
    ]  # fmt: skip


ODD_NAMES = ["\udcff\udcfe", "\udced\udca0\udc80", "", "a\ufffd", "gr\u00f6\u00dfe"]


@pytest.mark.parametrize("wanted", [ALL, ReadOptions(columns=("headerNames",))])
@pytest.mark.parametrize("magic", [2, "tuples"])
def test_names_of_headers_that_are_no_utf8_stand_beside_them_as_bytes(
    wanted: ReadOptions, magic: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    if magic == "tuples":
        monkeypatch.setattr(record_decoder, "record_starts", unproven)
    data = build(
        [
            Record(0, NOW_MS, None, b"none"),
            Record(1, NOW_MS, None, None, tuple((name, b"1") for name in ODD_NAMES)),
            Record(2, NOW_MS, None, None, tuple((name, None) for name in ODD_NAMES[2:])),
            Record(3, NOW_MS, None, None, ((ODD_NAMES[1], None),)),
        ]
    )

    found = read(data, options=wanted)

    assert found == expected(data, options=wanted)
    assert [row["headerNames"] for row in found] == [
        None,
        [b"\xff\xfe", b"\xed\xa0\x80", b"", "a\ufffd".encode(), "gr\u00f6\u00dfe".encode()],
        None,
        [b"\xed\xa0\x80"],
    ]


def unproven(*_: object) -> None:
    raise UnprovenError


def test_records_with_very_many_headers_are_read() -> None:
    many = tuple((f"h{i}", b"%d" % i) for i in range(500))
    data = build([Record(0, NOW_MS, b"k", b"v", many), Record(1, NOW_MS, b"k", b"v")])

    assert read(data) == expected(data)


def test_a_file_that_is_gone_is_an_error_of_the_disk() -> None:
    with pytest.raises(StorageError):
        list(record_batches(MemoryFileSystem(), TASK, ALL))


def test_a_column_that_there_is_not_is_refused() -> None:
    disk, task = stored(PLAIN)

    with pytest.raises(ValueError, match="valeu"):
        list(record_batches(disk, task, ReadOptions(columns=("valeu",))))


def test_damage_survives_pickling() -> None:
    _, error = failure(batch_of(0, 3) + bytes(100))

    again = pickle.loads(pickle.dumps(error))

    assert str(again) == str(error)
    assert again.position == error.position


def test_an_empty_stretch_has_no_rows() -> None:
    disk, task = stored(b"")

    assert list(record_batches(disk, task, ReadOptions(columns=RECORD_COLUMNS))) == []


@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_batches_of_the_new_format_never_go_record_by_record(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TupleDecoder, "decode", None)
    options = BatchOptions(compression=codec)
    data = build(RECORDS, base_offset=10, options=options) + batch_of(20, 500, options)

    assert len(read(data)) == 505
