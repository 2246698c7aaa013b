"""Batches as rows: what headers say, and nothing that only records would tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from kbroker.log.disk.file_system import File
from kbroker.pipeline.logdir.columns import HEADER_COLUMNS, arrow_schema, header_columns
from kbroker.pipeline.logdir.decode import segment_pieces
from kbroker.pipeline.logdir.decode.damage import DamagedBatchError
from kbroker.pipeline.logdir.decode.header_columns import header_batches
from kbroker.record.compression import GZIP, NONE, ZSTD
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.record_batch import (
    ATTRIBUTES_POSITION,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.unit.pipeline.logdir.segment_rows import rows, stored

NOW_MS = 1_790_000_000_000


def batch_of(offset: int, count: int, options: BatchOptions | None = None) -> bytes:
    entries = [Record(offset + i, NOW_MS + i, b"k", b"v" * 200) for i in range(count)]
    return build(entries, base_offset=offset, options=options or BatchOptions())


def test_a_batch_is_a_row_with_all_that_its_header_says() -> None:
    options = BatchOptions(
        flags=TRANSACTIONAL_BIT,
        compression=ZSTD,
        partition_leader_epoch=4,
        producer_id=77,
        producer_epoch=3,
        base_sequence=2**31 - 1,
    )
    data = batch_of(0, 2) + batch_of(2, 3, options)
    disk, task = stored(data)

    _, row = rows(header_batches(disk, task, HEADER_COLUMNS))

    assert row["crc"] > 0
    assert {name: row[name] for name in HEADER_COLUMNS if name not in {"crc", "directory"}} == {
        "topic": "orders",
        "partition": 3,
        "segment": 0,
        "position": len(batch_of(0, 2)),
        "sizeBytes": len(batch_of(2, 3, options)),
        "baseOffset": 2,
        "lastOffset": 4,
        "recordCount": 3,
        "magic": 2,
        "compression": "zstd",
        "timestampType": 0,
        "baseTimestamp": NOW_MS * 1000,
        "maxTimestamp": (NOW_MS + 2) * 1000,
        "leaderEpoch": 4,
        "producerId": 77,
        "producerEpoch": 3,
        "baseSequence": 2**31 - 1,
        "lastSequence": 1,
        "isTransactional": True,
        "isControl": False,
        "hasDeleteHorizon": False,
        "attributes": TRANSACTIONAL_BIT | ZSTD,
        "crcValid": True,
    }


def test_rows_have_the_types_of_the_column_table() -> None:
    disk, task = stored(batch_of(0, 1))

    (batch,) = header_batches(disk, task, HEADER_COLUMNS)

    assert batch.schema == arrow_schema(header_columns(HEADER_COLUMNS))


def test_markers_and_empty_batches_are_rows_too() -> None:
    marker = build_marker(
        ControlRecord(True, 0), NOW_MS, options=BatchOptions(producer_id=1, producer_epoch=0)
    )
    empty = build([], base_offset=1, options=BatchOptions(last_offset=9, flags=DELETE_HORIZON_BIT))
    disk, task = stored(marker + empty)

    found = rows(
        header_batches(disk, task, ("isControl", "recordCount", "lastOffset", "hasDeleteHorizon"))
    )

    assert [list(row.values()) for row in found] == [[True, 1, 0, False], [False, 0, 9, True]]


@pytest.mark.parametrize("codec", [NONE, GZIP])
def test_what_a_wrapper_does_not_say_is_null(codec: int) -> None:
    old = [Record(5 + i, NOW_MS, None, b"v") for i in range(3)]
    disk, task = stored(build_legacy(old, 1, codec) + batch_of(8, 1))

    found = rows(header_batches(disk, task, ("baseOffset", "lastOffset", "recordCount", "magic")))

    wrapper = [{"baseOffset": None, "lastOffset": 7, "recordCount": None, "magic": 1}]
    plain = [
        {"baseOffset": offset, "lastOffset": offset, "recordCount": 1, "magic": 1}
        for offset in (5, 6, 7)
    ]
    assert found[:-1] == (wrapper if codec else plain)
    assert found[-1] == {"baseOffset": 8, "lastOffset": 8, "recordCount": 1, "magic": 2}


@pytest.mark.parametrize("data", [batch_of(0, 3), build_legacy([Record(0, 5, b"k", b"v")], 0)])
def test_a_wrong_checksum_is_a_row_that_says_so(data: bytes) -> None:
    spoilt = bytearray(data)
    spoilt[-1] ^= 1
    disk, task = stored(data + spoilt + data)

    found = rows(header_batches(disk, task, ("crcValid",)))

    assert [row["crcValid"] for row in found] == [True, False, True]


def test_a_time_that_no_timestamp_holds_is_null() -> None:
    times = BatchOptions(flags=TIMESTAMP_TYPE_BIT, max_timestamp=2**62)
    disk, task = stored(batch_of(0, 1, times) + batch_of(1, 1))

    found = rows(header_batches(disk, task, ("maxTimestamp", "timestampType")))

    assert found == [
        {"maxTimestamp": None, "timestampType": 1},
        {"maxTimestamp": NOW_MS * 1000, "timestampType": 0},
    ]


def test_what_is_no_batch_is_told_behind_the_rows_before_it() -> None:
    data = batch_of(0, 3)
    disk, task = stored(data + bytes(100))
    found = header_batches(disk, task, ("position",))

    assert next(found).num_rows == 1
    with pytest.raises(DamagedBatchError) as caught:
        next(found)
    assert caught.value.position == len(data)


@pytest.mark.parametrize("columns", [("position", "crcValid"), ("position", "sizeBytes")])
@pytest.mark.parametrize("piece_bytes", [1, 300, 4096])
def test_pieces_of_any_size_give_the_same_rows(
    columns: tuple[str, ...], piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [len(batch_of(0, count)) for count in (1, 30, 2, 1, 90, 5)]
    data = b"".join(batch_of(0, count) for count in (1, 30, 2, 1, 90, 5))
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", piece_bytes)
    disk, task = stored(data)

    found = rows(header_batches(disk, task, columns))

    assert [row["position"] for row in found] == [sum(sizes[:at]) for at in range(6)]


def test_a_stretch_of_a_segment_is_read_alone() -> None:
    first, second = batch_of(0, 3), batch_of(3, 3)
    disk, task = stored(first + second + batch_of(6, 3))
    task = replace(task, start_position=len(first), end_position=len(first + second))

    found = rows(header_batches(disk, task, ("baseOffset",)))

    assert found == [{"baseOffset": 3}]


def test_a_column_that_there_is_not_is_refused() -> None:
    disk, task = stored(b"")

    with pytest.raises(ValueError, match="value"):
        list(header_batches(disk, task, ("value",)))


def test_no_batch_is_opened() -> None:
    unknown_codec = bytearray(batch_of(0, 3))
    unknown_codec[ATTRIBUTES_POSITION + 1] = 7
    disk, task = stored(bytes(unknown_codec))

    (row,) = rows(header_batches(disk, task, ("compression", "recordCount")))

    assert row == {"compression": None, "recordCount": 3}


def large_batch(offset: int) -> bytes:
    return build([Record(offset, NOW_MS, b"k", bytes(200_000))], base_offset=offset)


LARGE = b"".join(large_batch(offset) for offset in range(30))


class CountingFile:
    """A file that counts the bytes that are read of it."""

    def __init__(self, disk: CountingFileSystem, inner: File) -> None:
        self._disk = disk
        self._inner = inner
        self.path = inner.path

    def pread(self, size: int, position: int) -> bytes:
        data = self._inner.pread(size, position)
        self._disk.read_bytes_count += len(data)
        return data

    def size(self) -> int:
        return self._inner.size()

    def close(self) -> None:
        self._inner.close()


class CountingFileSystem(MemoryFileSystem):
    read_bytes_count = 0

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> Any:
        opened = super().open(path, create=create, read_only=read_only)
        return CountingFile(self, opened) if read_only else opened


def test_most_of_large_batches_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", 1_000_000)
    _, task = stored(LARGE)
    disk = CountingFileSystem()
    disk.make_directory(task.directory)
    disk.write_bytes(task.path, LARGE)

    found = rows(header_batches(disk, task, ("baseOffset", "position", "sizeBytes")))

    size = len(large_batch(0))
    assert [row["baseOffset"] for row in found] == list(range(30))
    assert [row["position"] for row in found] == [size * at for at in range(30)]
    assert disk.read_bytes_count < len(LARGE) / 4


@pytest.mark.parametrize("tail", [bytes(500), large_batch(30)[:-1], b"\x17" * 99])
def test_damage_behind_large_batches_is_told(tail: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", 1_000_000)
    disk, task = stored(LARGE + tail)
    batches = header_batches(disk, task, ("baseOffset",))

    assert sum(batch.num_rows for batch in islice(batches, 2)) == 30
    with pytest.raises(DamagedBatchError) as caught:
        next(batches)
    assert caught.value.position == len(LARGE)


def test_a_stretch_of_large_batches_ends_where_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_pieces, "PIECE_BYTES", 1_000_000)
    disk, task = stored(LARGE + bytes(10))
    task = replace(task, end_position=len(large_batch(0)) * 20)

    assert len(rows(header_batches(disk, task, ("baseOffset",)))) == 20
