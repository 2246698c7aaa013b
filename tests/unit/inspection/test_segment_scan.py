from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.inspection import segment_scan
from kbroker.inspection.segment_scan import SegmentScan, TailKind
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.record.record_batch import BatchOptions, Record, build


def batch(base_offset: int, count: int = 1, value: bytes = b"v", **fields) -> bytes:
    records = [Record(base_offset + index, 1000, b"k", value) for index in range(count)]
    return build(records, base_offset=base_offset, options=BatchOptions(**fields))


def scanned(path: Path, *, checks_crc: bool = True):
    scan = SegmentScan(RealFileSystem(), str(path), checks_crc=checks_crc)
    return scan, list(scan.batches())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "00000000000000000000.log"


@pytest.mark.parametrize("checks_crc", [True, False])
@pytest.mark.parametrize("value_bytes", [1, 50, 3_000, 5_000, 1_100_000])
def test_batches_of_any_size_come_with_their_place(
    path: Path, value_bytes: int, checks_crc: bool
) -> None:
    batches = [batch(offset, value=b"x" * value_bytes) for offset in range(40)]
    path.write_bytes(b"".join(batches))

    scan, found = scanned(path, checks_crc=checks_crc)

    size = len(batches[0])
    assert [b.position for b in found] == [index * size for index in range(40)]
    assert [b.header.base_offset for b in found] == list(range(40))
    assert all(b.is_intact for b in found)
    assert (scan.tail, scan.size_bytes) == (None, 40 * size)


@pytest.mark.parametrize("value_bytes", [1, 1_100_000])
def test_a_wrong_crc_is_told_and_passed_over(path: Path, value_bytes: int) -> None:
    batches = [bytearray(batch(offset, value=b"x" * value_bytes)) for offset in range(3)]
    batches[1][-5] ^= 1
    path.write_bytes(b"".join(batches))

    _, found = scanned(path)

    assert [b.is_intact for b in found] == [True, False, True]


@pytest.mark.parametrize("value_bytes", [1, 5_000, 1_100_000])
def test_a_batch_can_be_read_while_the_walk_stands_at_it(path: Path, value_bytes: int) -> None:
    batches = [batch(offset, value=b"x" * value_bytes) for offset in range(3)]
    path.write_bytes(b"".join(batches))

    for checks_crc in (True, False):
        scan = SegmentScan(RealFileSystem(), str(path), checks_crc=checks_crc)
        assert [bytes(scan.read(found)) for found in scan.batches()] == batches


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (b"\0" * 10, TailKind.ZEROS),
        (b"\0" * 3_000_000, TailKind.ZEROS),
        (b"\0" * 200 + b"\1", TailKind.GARBAGE),
        (b"\xff" * 100, TailKind.GARBAGE),
        (batch(2)[:-1], TailKind.TORN),
        (batch(2)[:61], TailKind.TORN),
        (batch(2)[:40], TailKind.TORN),
    ],
)
def test_what_is_no_whole_batch_is_left_as_the_tail(
    path: Path, tail: bytes, kind: TailKind
) -> None:
    whole = batch(0) + batch(1)
    path.write_bytes(whole + tail)

    scan, found = scanned(path)

    assert len(found) == 2
    assert scan.tail is not None
    assert (scan.tail.kind, scan.tail.position, scan.tail.size_bytes) == (
        kind, len(whole), len(tail),
    )  # fmt: skip


def test_a_claimed_size_takes_no_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_scan, "BATCHES_READ_BYTES", 4096)
    monkeypatch.setattr(segment_scan, "MAX_BATCH_BYTES", 100_000)
    most = 0
    plain = RealFileSystem.open

    def watched(self, path, **how):
        file = plain(self, path, **how)
        read = file.pread

        class Watched:
            def pread(self, size, position):
                nonlocal most
                most = max(most, size)
                return read(size, position)

            size, close, fileno = file.size, file.close, file.fileno

        return Watched()

    monkeypatch.setattr(RealFileSystem, "open", watched)
    broken = bytearray(batch(0, value=b"x" * 300_000))
    broken[-1] ^= 1
    path.write_bytes(broken)
    scan = SegmentScan(RealFileSystem(), str(path), checks_crc=True)

    for found in scan.batches():
        assert not found.is_intact
        with pytest.raises(KafkaError) as refused:
            scan.read(found)
        assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE

    assert 0 < most <= 4096


def test_an_empty_file_has_no_batch_and_no_tail(path: Path) -> None:
    path.write_bytes(b"")

    scan, found = scanned(path)

    assert (found, scan.tail, scan.size_bytes) == ([], None, 0)
