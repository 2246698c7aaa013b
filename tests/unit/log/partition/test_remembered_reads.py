"""What a log remembers of its reads never shows: each finds what the files hold at that moment."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from kbroker.log.cleaner.cleanable_log import first_dirty_offset
from kbroker.log.disk.file_system import RealFile
from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchDataInfo, FetchIsolation
from kbroker.record.record_batch import BatchHeader
from tests.fakes.logs.log_cleaning import clean
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log

LOG_END, HIGH_WATERMARK = FetchIsolation.LOG_END, FetchIsolation.HIGH_WATERMARK
SMALL_INDEX = {"index_interval_bytes": 200, "cleanup_policy": ("compact",)}


@pytest.fixture
def preads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the files that were read from, read for read."""
    paths: list[str] = []
    pread = RealFile.pread

    def noted(file: RealFile, size: int, position: int) -> bytes:
        paths.append(file.path)
        return pread(file, size, position)

    monkeypatch.setattr(RealFile, "pread", noted)
    return paths


def append(log: Log, chance: Random, count: int = 1) -> None:
    for _ in range(count):
        value = bytes([chance.randrange(256)]) * chance.randrange(150)
        key = b"%d" % chance.randrange(20)
        log.append_as_leader(batch(*[value] * chance.randint(1, 3), key=key), 0, NOW_MS)


def batches_of(log: Log, offset: int) -> list[tuple[BatchHeader, bytes]]:
    """The batches of one segment from the one that holds `offset`, or comes next, on."""
    for segment in log.segments:
        found = [
            (header, bytes(view))
            for _, header, view in segment.records.batches()
            if header.last_offset >= offset
        ]
        if found:
            return found
    return []


def expected(log: Log, offset: int, limit: int, isolation: FetchIsolation, *, whole: bool) -> bytes:
    bound = log.log_end_offset if isolation is LOG_END else log.high_watermark
    if offset >= bound:
        return b""
    readable = [view for header, view in batches_of(log, offset) if header.last_offset < bound]
    first = len(readable[0]) if readable and whole else 0
    return b"".join(readable)[: max(limit, first)]


def content(read: FetchDataInfo) -> bytes:
    return read.records.read() if len(read.records) else b""


@pytest.mark.parametrize("seed", range(12))
def test_readers_find_what_is_there_whatever_came_between(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    log = open_log(tmp_path, **SMALL_INDEX)
    consumers = [0, 0, 0]
    for _ in range(300):
        end = log.log_end_offset
        match chance.randrange(20):
            case 0:
                log.roll(NOW_MS)
            case 1:
                log.truncate_to(chance.randint(max(0, end - 8), end))
            case 2:
                log.update_high_watermark(end)
                if first_dirty_offset(log) < log.segments.active.base_offset:
                    clean(log, NOW_MS)
            case 3:
                log.update_high_watermark(chance.choice([b for b, _ in bounds(log)] or [0]))
            case 4 | 5 | 6 | 7:
                append(log, chance, chance.randint(1, 4))
            case _:
                number = chance.randrange(3)
                isolation = chance.choice((LOG_END, HIGH_WATERMARK))
                limit = chance.choice((0, 1, 150, 700, 1 << 20))
                whole = chance.random() < 0.7
                offset = min(consumers[number], log.log_end_offset)
                read = log.read(offset, limit, isolation, whole)
                assert content(read) == expected(log, offset, limit, isolation, whole=whole)
                consumers[number] = next_offset_of(read, offset)
                if chance.random() < 0.1:
                    consumers[number] = chance.randint(0, log.log_end_offset)


def bounds(log: Log) -> list[tuple[int, int]]:
    """The first and last offset of each batch."""
    return [
        (header.base_offset, header.last_offset)
        for segment in log.segments
        for _, header in segment.records.headers()
    ]


def next_offset_of(read: FetchDataInfo, offset: int) -> int:
    """Where a consumer goes on: after the last whole batch."""
    next_offset = offset
    end = read.records.position + len(read.records)
    for position, header in read.records.records.headers(read.records.position):
        if position + header.size_bytes > end:
            break
        next_offset = header.next_offset
    return next_offset


@pytest.mark.parametrize("isolation", [LOG_END, HIGH_WATERMARK])
def test_who_follows_the_log_looks_nothing_up(
    tmp_path: Path, preads: list[str], isolation: FetchIsolation
) -> None:
    chance = Random(1)
    log = open_log(tmp_path, **SMALL_INDEX)
    append(log, chance, 50)
    log.update_high_watermark(log.log_end_offset)
    log.read(0, 1 << 20, isolation)
    preads.clear()
    offset = log.log_end_offset

    for _ in range(20):
        append(log, chance)
        log.update_high_watermark(log.log_end_offset)
        for _consumer in range(3):
            assert len(log.read(offset, 1 << 20, isolation).records)
        offset = log.log_end_offset

    assert preads == []


def test_how_far_a_follower_has_come_is_not_looked_up_for_consumers(
    tmp_path: Path, preads: list[str]
) -> None:
    log = open_log(tmp_path, **SMALL_INDEX)
    append(log, Random(1), 50)
    high_watermark = log.log_end_offset
    append(log, Random(1), 50)
    log.read(high_watermark, 1 << 20, LOG_END)
    log.update_high_watermark(high_watermark)
    preads.clear()

    found = content(log.read(20, 1 << 20, HIGH_WATERMARK))

    looked_up = [path for path in preads if path.endswith(".log")][1:]  # the first is its start
    assert len(looked_up) == len(["the content"])
    assert found == expected(log, 20, 1 << 20, HIGH_WATERMARK, whole=False)


def test_a_page_of_an_index_is_read_once_for_searches_in_it(
    tmp_path: Path, preads: list[str]
) -> None:
    chance = Random(1)
    log = open_log(tmp_path, **SMALL_INDEX)
    append(log, chance, 600)
    log.roll(NOW_MS)
    log.close()
    log = open_log(tmp_path, recovery_point=log.log_end_offset, **SMALL_INDEX)
    log.update_high_watermark(log.log_end_offset)
    log.read(500, 100)
    preads.clear()

    for offset in range(400, 500):
        log.read(offset, 100)

    assert [path for path in preads if path.endswith(".index")] == []


def test_a_cut_index_is_searched_anew(tmp_path: Path) -> None:
    chance = Random(1)
    log = open_log(tmp_path, **SMALL_INDEX)
    append(log, chance, 600)
    log.roll(NOW_MS)
    end = log.log_end_offset
    log.close()
    log = open_log(tmp_path, recovery_point=end, **SMALL_INDEX)
    log.read(end - 10, 100, LOG_END)

    log.truncate_to(end - 100)
    append(log, chance, 100)

    for offset in range(end - 150, log.log_end_offset):
        found = content(log.read(offset, 1000, LOG_END))
        assert found == expected(log, offset, 1000, LOG_END, whole=False)


def test_a_broker_keeps_so_many_pages_and_no_more(
    tmp_path: Path, preads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.log.segments.index_file._KEPT_PAGES", 2)
    logs = []
    for number in range(3):
        log = open_log(tmp_path / f"t-{number}", **SMALL_INDEX)
        append(log, Random(1), 100)
        log.close()
        logs.append(open_log(tmp_path / f"t-{number}", recovery_point=200, **SMALL_INDEX))
    for log in logs:
        log.segments.active.offset_index.lookup(20)
    preads.clear()

    for log in (logs[1], logs[2], logs[0]):
        log.segments.active.offset_index.lookup(20)

    assert [Path(path).parent.name for path in preads] == ["t-0"]
