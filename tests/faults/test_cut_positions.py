"""A copy of a log cut anywhere: the log ends at the last whole batch, and what is read is right.

The data file is cut at every byte of its last three batches, bare or followed by zeros or garbage,
in formats 2, 1 and 0; every index, snapshot, epoch and checkpoint file at every byte.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import pairwise

import pytest

from kbroker.config.log_config import LogConfig
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import KafkaError
from kbroker.log.directories.log_directories import LogDirectories
from kbroker.log.manager.log_manager import LogManager
from kbroker.log.partition.log import Log
from kbroker.log.partition.log_state import LogEnvironment
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.recovery.load_request import LoadRequest
from kbroker.log.recovery.log_loader import load_log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, read_any_header
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_maker import NOW_MS, PARTITION, FixedClock, batch
from tests.fakes.logs.time_search import first_at
from tests.fakes.logs.verified_batches import verified

DIRECTORY = "/d/t-0"
CONFIG = TopicConfig(segment_bytes=520, index_interval_bytes=60, segment_index_bytes=256)
TAILS = {"bare": b"", "zeros": bytes(100), "garbage": bytes(range(7, 250, 3))}

Files = dict[str, bytes]
Found = list[tuple[int, bytes | None]]


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def disk_with(files: Files) -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.make_directory(DIRECTORY)
    for path, data in files.items():
        disk.write_bytes(path, data)
    return disk


def opened(
    disk: MemoryFileSystem,
    *,
    was_clean: bool = False,
    recovery_point: int = 0,
    gapless_from: int | None = 0,
) -> Log:
    request = LoadRequest(
        topic_partition=PARTITION,
        directory=DIRECTORY,
        config=CONFIG,
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        gapless_from=gapless_from,
        was_clean=was_clean,
    )
    return load_log(request, LogEnvironment(file_system=disk))


def contents(disk: MemoryFileSystem) -> Files:
    return {path: disk.read_bytes(path) for path, _ in disk.files()}


def records_in(log: Log) -> Found:
    """All records, read from the start as a consumer does."""
    found: Found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, FetchIsolation.LOG_END).records.read()
        found += _decoded(data)
        offset = found[-1][0] + 1
    return found


def _decoded(data: bytes) -> Found:
    found: Found = []
    position = 0
    while position < len(data):
        size = read_any_header(data, position).size_bytes
        found += [(r.offset, r.value) for r in any_records(data[position : position + size])]
        position += size
    return found


def a_batch(magic: int, offset: int, epoch: int) -> bytes:
    records = [
        Record(offset + index, NOW_MS + offset, b"k", b"%d.%d" % (offset, index) * 9)
        for index in range(2)
    ]
    if magic == 2:
        options = BatchOptions(partition_leader_epoch=epoch)
        return build(records, base_offset=offset, options=options)
    return build_legacy(records, magic)


def written(last_magic: int) -> Files:
    """Several segments of all three formats; the last batches are of one."""
    disk = disk_with({})
    log = opened(disk, was_clean=True)
    for index, magic in enumerate((0, 1, 2, 0, 1, 2, *[last_magic] * 4)):
        log.append_as_follower(a_batch(magic, 2 * index, index // 3), NOW_MS)
    assert len(log.segments) > 2
    log.flush()
    return contents(disk)


def with_producers() -> Files:
    """Segments with idempotent producers, two epochs, and an aborted transaction; cleanly closed."""
    disk = disk_with({})
    log = opened(disk, was_clean=True)
    for index in range(6):
        for producer in (5, 6):
            data = batch(
                b"%d" % index * 60,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=index,
                flags=TRANSACTIONAL_BIT if producer == 6 else 0,
            )
            log.append_as_leader(verified(log, data), index // 3, NOW_MS)
        if index in (2, 4):
            options = BatchOptions(producer_id=6, producer_epoch=0)
            marker = build_marker(ControlRecord(False, 0), NOW_MS, options=options)
            log.append_as_leader(
                bytearray(marker), index // 3, NOW_MS, origin=AppendOrigin.COORDINATOR
            )
    log.close()
    assert len(log.segments) > 2
    return contents(disk)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("magic", [2, 1, 0])
def test_a_log_cut_at_any_byte_ends_at_its_last_whole_batch(magic: int, tail: str) -> None:
    files = written(magic)
    path = max(name for name in files if name.endswith(".log"))
    data = files[path]
    everything = records_in(opened(disk_with(files)))
    ends = [0]
    while ends[-1] < len(data):
        ends.append(ends[-1] + read_any_header(data, ends[-1]).size_bytes)
    batches = [_decoded(data[start:end]) for start, end in pairwise(ends)]
    before = everything[: len(everything) - sum(map(len, batches))]

    for cut in range(ends[-4] if len(ends) > 3 else 0, len(data)):
        left = data[:cut] + TAILS[tail]  # a batch may end in a zero
        whole = sum(left.startswith(data[:end]) for end in ends[1:])
        expected = before + [record for records in batches[:whole] for record in records]
        log = opened(disk_with({**files, path: left}))
        assert records_in(log) == expected, cut
        assert log.log_end_offset == (expected[-1][0] + 1 if expected else 0), cut


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_cut_at_any_byte_leads_to_no_wrong_place(suffix: str, was_clean: bool) -> None:
    files = with_producers()
    whole = opened(disk_with(files), was_clean=True)
    everything = records_in(whole)
    end_offset = whole.log_end_offset
    aborted = [e for s in whole.segments for e in s.transaction_index.entries]
    assert aborted
    cut_positions = [(p, cut) for p in files if p.endswith(suffix) for cut in range(len(files[p]))]
    assert len(cut_positions) > 20

    for path, cut in cut_positions:
        disk = disk_with({**files, path: files[path][:cut]})
        log = opened(disk, was_clean=was_clean, recovery_point=end_offset)
        assert records_in(log) == everything, (path, cut)
        for offset, value in everything:
            data = log.read(offset, 1 << 20, FetchIsolation.LOG_END).records.read()
            assert (offset, value) in _decoded(data)[:1], (path, cut, offset)
        assert first_at(log, NOW_MS) is not None
        if suffix != ".txnindex" or cut % 34:  # a whole number of entries looks right to Kafka too
            found = [e for s in log.segments for e in s.transaction_index.entries]
            assert found == aborted, (path, cut)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_snapshot_or_epoch_file_cut_at_any_byte_is_made_again(was_clean: bool) -> None:
    files = with_producers()
    whole = opened(disk_with(files), was_clean=True)
    end_offset, epochs = whole.log_end_offset, whole.leader_epoch_cache.entries
    suffixes = (".snapshot", "epoch-checkpoint")

    for path, cut in [(p, c) for p in files if p.endswith(suffixes) for c in range(len(files[p]))]:
        disk = disk_with({**files, path: files[path][:cut]})
        log = opened(disk, was_clean=was_clean, recovery_point=end_offset)
        assert log.leader_epoch_cache.entries == epochs, (path, cut)
        assert {p: e.last_sequence for p, e in log.producer_state.producers.items()} == {
            p: e.last_sequence for p, e in whole.producer_state.producers.items()
        }, (path, cut)


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "log-start-offset-checkpoint",
    ],
)
def test_a_checkpoint_cut_at_any_byte_costs_no_record(name: str) -> None:
    disk = MemoryFileSystem()
    logs = started(disk)
    log = logs.get_or_create_log(PARTITION)
    for index in range(12):
        log.append_as_leader(batch(b"%d" % index * 60), 0, NOW_MS)
    log.update_high_watermark(12)
    log.maybe_increment_log_start_offset(3)
    logs.write_high_watermarks({PARTITION: 12})
    everything = [(h, v) for h, v in records_in(log) if h >= 3]
    logs.shutdown()
    disk.unlink("/d/.kafka_cleanshutdown")
    files = contents(disk)
    assert len(files[f"/d/{name}"]) > 8

    for cut in range(len(files[f"/d/{name}"])):
        again = started(disk_with({**files, f"/d/{name}": files[f"/d/{name}"][:cut]}))
        found = again.get_log(PARTITION)
        assert found is not None
        assert found.log_start_offset in (0, 3)
        assert [(h, v) for h, v in records_in(found) if h >= 3] == everything, cut
        assert set(again.read_high_watermarks().values()) <= {12}, cut


def started(disk: MemoryFileSystem) -> LogManager:
    logs = LogManager(
        LogDirectories.lock(disk, ["/d"]), LogConfig, lambda _: CONFIG, disk, FixedClock()
    )
    logs.load("cluster", 1)
    return logs


def test_a_missing_segment_is_no_reason_to_read_past_it() -> None:
    files = written(2)
    names = sorted(name for name in files if name.endswith(".log"))
    del files[names[1]]

    log = opened(disk_with(files))

    with pytest.raises(KafkaError):
        log.read(log.log_end_offset + 1, 100, FetchIsolation.LOG_END)
    assert log.log_end_offset == int(names[1].rpartition("/")[2].partition(".")[0])


def test_a_missing_segment_takes_no_other_along_where_nothing_is_known_of_the_log() -> None:
    files = written(2)
    names = sorted(name for name in files if name.endswith(".log"))
    whole = records_in(opened(disk_with(files), was_clean=True))
    gone, after = (int(names[n].rpartition("/")[2].partition(".")[0]) for n in (1, 2))
    del files[names[1]]

    log = opened(disk_with(files), gapless_from=None)

    assert records_in(log) == [r for r in whole if not gone <= r[0] < after]
