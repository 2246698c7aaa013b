"""One round of cleaning over batches of every kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from kbroker.log.cleaner.cleaner_worker import run_job
from kbroker.log.cleaner.cleaning_job import CleanerLimits, CleaningFailed
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.partition.log import Log
from kbroker.record.compression import GZIP
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.piece_stream import PieceStream
from kbroker.record.record_batch import BatchOptions, Record, build
from tests.fakes.logs.log_cleaning import clean, stored_batches, stored_records
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.time_search import first_at

DAY_MS = 86_400_000


def append(log: Log, *entries: tuple[bytes | None, bytes | None], **options: Any) -> None:
    records = [Record(index, NOW_MS, *entry) for index, entry in enumerate(entries)]
    log.append_as_leader(bytearray(build(records, options=BatchOptions(**options))), 0, NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def log_with(directory: Path, segments: dict[int, bytes], **settings: Any) -> Log:
    """A log of these segment files, and an active one."""
    directory.mkdir()
    for base_offset, data in segments.items():
        (directory / f"{base_offset:020d}.log").write_bytes(data)
    log = open_log(directory, **{"cleanup_policy": ("compact",)} | settings)
    log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return log


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in stored_records(log)]


@pytest.mark.parametrize("codec", range(5))
def test_unchanged_batches_are_copied_and_others_keep_their_codec(
    codec: int, tmp_path: Path
) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",))
    append(log, (b"a", b"1"), (b"b", b"1"), compression=codec)
    append(log, (b"a", b"2"), (b"c", b"2"), compression=codec)
    log.roll(NOW_MS)
    before = [batch for _, batch in stored_batches(log)]
    done = clean(log, NOW_MS)
    after = list(stored_batches(log))
    assert contents(log) == [(1, b"b", b"1"), (2, b"a", b"2"), (3, b"c", b"2")]
    assert after[1][1] == before[1]
    assert [header.compression for header, _ in after] == [codec, codec]
    assert (done.stats.records_read, done.stats.records_written) == (4, 3)


def test_a_batch_larger_than_the_buffer_is_read_whole(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",))
    append(log, (b"a", b"x" * 50_000), (b"b", b"y" * 50_000))
    append(log, (b"a", b"z"))
    log.roll(NOW_MS)
    clean(log, NOW_MS, limits=CleanerLimits(read_bytes=1000))
    assert contents(log) == [(1, b"b", b"y" * 50_000), (2, b"a", b"z")]


def test_records_without_a_key_go(tmp_path: Path) -> None:
    batch = build([Record(0, NOW_MS, None, b"v"), Record(1, NOW_MS, b"a", b"v")])
    log = log_with(tmp_path / "t-0", {0: batch})
    done = clean(log, NOW_MS)
    assert contents(log) == [(1, b"a", b"v")]
    assert done.stats.keyless_records == 1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
def test_old_formats_are_cleaned_in_their_format(magic: int, codec: int, tmp_path: Path) -> None:
    time = NOW_MS if magic else -1
    keys = [b"a", b"b", b"a", None, b"c", b"b"]
    written = [Record(index, time, key, b"%d" % index) for index, key in enumerate(keys)]
    data = build_legacy(written[:3], magic, codec) + build_legacy(written[3:], magic, codec)
    log = log_with(tmp_path / "t-0", {0: data})
    clean(log, NOW_MS)
    assert contents(log) == [(2, b"a", b"2"), (4, b"c", b"4"), (5, b"b", b"5")]
    assert {(h.magic, h.compression) for h, _ in stored_batches(log)} == {(magic, codec)}


@pytest.mark.parametrize("source", [0, 1])
def test_what_an_old_message_wraps_is_cleaned_one_by_one(
    source: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 30_000
    time = NOW_MS if source else -1
    records = (Record(n, time, b"%d" % (n % 900), b"v") for n in range(count))
    log = log_with(tmp_path / "t-0", {0: build_legacy(records, source, GZIP)})
    objects: list[int] = []
    more = PieceStream.more

    def watched(stream: PieceStream) -> bool:
        objects.append(sys.getallocatedblocks())
        return more(stream)

    monkeypatch.setattr(PieceStream, "more", watched)

    clean(log, NOW_MS)

    assert [offset for offset, _, _ in contents(log)] == [*range(count - 900, count)]
    assert max(objects) - min(objects) < count // 4


def test_a_tombstone_of_an_old_format_goes_by_the_age_of_its_segment(tmp_path: Path) -> None:
    tombstone = build_legacy([Record(0, NOW_MS, b"a", None)], 1)
    log = log_with(tmp_path / "t-0", {0: tombstone}, delete_retention_ms=DAY_MS)
    disk = RealFileSystem()
    clean(log, NOW_MS)
    assert contents(log) == [(0, b"a", None)]
    disk.set_modified_ms(log.segments[0].records.path, NOW_MS - 2 * DAY_MS)
    append(log, (b"b", b"1"))
    log.roll(NOW_MS)
    clean(log, NOW_MS)
    assert contents(log) == [(0, b"a", None), (1, b"b", b"1")]
    append(log, (b"c", b"1"))
    log.roll(NOW_MS)
    done = clean(log, NOW_MS)
    assert done.end_offset == 3
    assert (1, b"b", b"1") in contents(log)


def test_small_neighbours_become_one_segment_and_large_ones_do_not(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), segment_bytes=400)
    for number in range(4):
        append(log, (b"%d" % number, b"x" * 300))
    for number in range(3):
        append(log, (b"s", b"%d" % number))
        log.roll(NOW_MS)
    clean(log, NOW_MS)
    assert log.segments.base_offsets == [0, 1, 2, 3, 4, 7]


def test_leader_epochs_and_producers_survive_a_cleaning_and_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",))
    for epoch in range(3):
        data = build(
            [Record(0, NOW_MS, b"a", b"%d" % epoch)],
            options=BatchOptions(producer_id=9, producer_epoch=0, base_sequence=epoch),
        )
        log.append_as_leader(bytearray(data), epoch, NOW_MS)
        log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    clean(log, NOW_MS)
    assert log.leader_epoch_cache.entries == [(0, 0), (1, 1), (2, 2)]
    log.close()
    again = open_log(tmp_path, cleanup_policy=("compact",))
    assert again.leader_epoch_cache.entries == [(0, 0), (1, 1), (2, 2)]
    assert again.producer_state.producers[9].last_sequence == 2
    assert contents(again) == [(2, b"a", b"2")]


def test_reads_and_searches_find_what_is_left(tmp_path: Path) -> None:
    log = open_log(tmp_path, cleanup_policy=("compact",), index_interval_bytes=100)
    for number in range(200):
        records = [Record(0, NOW_MS + number, b"%d" % (number % 50), b"v" * 30)]
        log.append_as_leader(bytearray(build(records)), 0, NOW_MS)
    log.roll(NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    clean(log, NOW_MS)
    cleaned = log.segments[0]
    assert cleaned.offset_index.entry_count > 5
    cleaned.sanity_check()
    assert log.read(10, 1000).records.position == 0
    assert log.read(180, 1000).records.position > 0
    found = first_at(log, NOW_MS + 170)
    assert found is not None
    assert found.offset == 170
    assert cleaned.largest_timestamp == NOW_MS + 199


def test_a_disk_error_says_what_was_refused(tmp_path: Path) -> None:
    from kbroker.log.cleaner.cleanable_log import cleaning_job, log_to_clean

    log = open_log(tmp_path, cleanup_policy=("compact",))
    append(log, (b"a", b"1"))
    log.roll(NOW_MS)
    disk = RealFileSystem()
    job = cleaning_job(log_to_clean(log, 0, NOW_MS), disk, CleanerLimits(), NOW_MS)
    Path(log.segments[0].records.path).unlink()
    end = run_job(job, disk, lambda _: None, lambda _: None, lambda: False)
    assert isinstance(end, CleaningFailed)
    assert (end.operation, end.path) == ("open", log.segments[0].records.path)
