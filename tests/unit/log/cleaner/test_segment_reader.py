"""What the cleaner reads, and what it refuses to read on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.cleaner.cleaning_job import SourceSegment
from kbroker.log.cleaner.segment_reader import DamagedSegmentError, read_batches
from kbroker.log.disk.file_system import RealFileSystem
from tests.fakes.logs.log_maker import batch


def offsets_read(path: Path, data: bytes) -> list[int]:
    path.write_bytes(data)
    source = SourceSegment(
        base_offset=0,
        path=str(path),
        size_bytes=len(data),
        offset_index_bytes=0,
        time_index_bytes=0,
        modified_ms=0,
    )
    batches = read_batches(RealFileSystem(), source, 100, lambda _: None)
    return [header.base_offset for header, _ in batches]


def test_batches_with_gaps_are_read_in_order(tmp_path: Path) -> None:
    data = b"".join(batch(b"a", b"b", base_offset=offset) for offset in (0, 7, 9))

    assert offsets_read(tmp_path / "0.log", data) == [0, 7, 9]


@pytest.mark.parametrize("byte", [0, 6, 7, 10, 20, 40, 70])
def test_nothing_is_cleaned_by_damaged_batches(tmp_path: Path, byte: int) -> None:
    data = bytearray(b"".join(batch(b"a", b"b", base_offset=offset) for offset in (0, 2, 4)))
    data[len(data) // 3 + byte] ^= 1 << 7

    with pytest.raises(DamagedSegmentError):
        offsets_read(tmp_path / "0.log", bytes(data))
