"""Which log is cleaned when, up to where, and what happens to a log that changes meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from kbroker.config.topic_config import TopicConfig
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.segment_swap import SegmentSwap
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.brokers.cleaning_broker import DATA, CleaningBroker
from tests.fakes.disks.failing_file_system import FailingFileSystem
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.fakes.logs.log_cleaning import stored_batches, stored_records
from tests.fakes.logs.log_maker import delete_old_segments

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def new_broker(disk: Any = None, **topic: Any) -> CleaningBroker:
    disk = disk or MemoryFileSystem()
    disk.make_directory(DATA)
    return CleaningBroker(disk, {"min_cleanable_dirty_ratio": 0.0} | topic)


def fill(broker: CleaningBroker, *keys: bytes, log: Log | None = None) -> Log:
    """One segment of a batch per key; the next one is active."""
    log = log or broker.log()
    for key in keys:
        broker.write(log, (key, b"%d" % log.log_end_offset))
    broker.roll(log)
    return log


def offsets(log: Log) -> list[int]:
    return [record.offset for record in stored_records(log)]


def restarted_offsets(broker: CleaningBroker) -> list[int]:
    """Of the same log under the next broker."""
    broker.cleaner.stop()
    broker.logs.shutdown()
    return offsets(CleaningBroker(broker.disk, {"min_cleanable_dirty_ratio": 0.0}).log())


def names(broker: CleaningBroker, *suffixes: str) -> list[str]:
    return [name for name in broker.disk.list(f"{DATA}/t-0") if name.endswith(suffixes)]


# Which part


def test_only_the_last_record_of_a_key_stays_at_its_offset() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"b", b"a", b"c", b"b")
    broker.clean()
    assert offsets(log) == [2, 3, 4]
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert broker.checkpoint() == ["t 0 5"]


def test_the_active_segment_is_left_alone() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    broker.write(log, (b"b", b"1"))
    broker.write(log, (b"b", b"2"))
    broker.clean()
    assert offsets(log) == [1, 2, 3]


def test_a_segment_that_holds_the_last_stable_offset_is_left_alone() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    transaction = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    broker.write(log, (b"a", b"open"), flags=TRANSACTIONAL_BIT, **transaction)
    fill(broker, b"a")
    fill(broker, b"a")
    broker.clean()
    assert offsets(log) == [1, 2, 3, 4]
    assert log.cleaned_end_offset == 2


def test_records_younger_than_the_minimum_lag_wait() -> None:
    broker = new_broker(min_compaction_lag_ms=HOUR_MS)
    log = fill(broker, b"a", b"a")
    broker.time.advance(HOUR_MS + 1)
    fill(broker, b"a", b"a")
    broker.clean()
    assert offsets(log) == [1, 2, 3]
    broker.time.advance(HOUR_MS + 1)
    broker.clean()
    assert offsets(log) == [3]


def test_a_log_below_the_dirty_ratio_waits() -> None:
    broker = new_broker(min_cleanable_dirty_ratio=0.5)
    log = fill(broker, *[b"%d" % number for number in range(20)])
    broker.clean()
    fill(broker, b"1", b"2")
    broker.clean()
    assert len(broker.runner.jobs) == 1
    fill(broker, *[b"%d" % number for number in range(20)])
    broker.clean()
    assert len(broker.runner.jobs) == 2
    assert len(offsets(log)) == 20


def test_the_maximum_lag_forces_a_cleaning() -> None:
    broker = new_broker(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=HOUR_MS)
    log = fill(broker, b"a", b"a")
    broker.clean()
    assert offsets(log) == [0, 1]
    broker.time.advance(HOUR_MS + 1)
    broker.clean()
    assert offsets(log) == [1]


def test_a_compacted_log_rolls_early_enough_for_its_maximum_lag() -> None:
    broker = new_broker(max_compaction_lag_ms=HOUR_MS)
    log = broker.log()
    broker.write(log, (b"a", b"1"))
    broker.time.advance(HOUR_MS + 1)
    broker.write(log, (b"a", b"2"))
    assert log.segments.base_offsets == [0, 1]


def test_the_dirtiest_log_comes_first() -> None:
    broker = new_broker()
    one = fill(broker, b"a", b"b", b"c")
    broker.clean()
    fill(broker, b"a", log=one)
    fill(broker, b"a", b"a", log=broker.log("u"))
    broker.cleaner.look()
    assert [job.topic for job in broker.runner.jobs] == ["t", "u"]


def test_a_map_that_is_too_small_cleans_in_several_rounds() -> None:
    broker = new_broker()
    broker.settings = type(broker.settings)(log_cleaner_dedupe_buffer_size=300)
    keys = [b"%d" % number for number in range(12)]
    log = fill(broker, *keys, *keys)
    broker.clean()
    first = log.cleaned_end_offset
    assert first is not None
    assert 0 < first < 24
    for _ in range(6):
        broker.clean()
    assert offsets(log) == list(range(12, 24))


def test_one_batch_that_does_not_fit_into_the_map_is_said_and_nothing_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = new_broker()
    broker.settings = type(broker.settings)(log_cleaner_dedupe_buffer_size=300)
    log = broker.log()
    broker.write(log, *[(b"%d" % number, b"v") for number in range(12)])
    broker.roll(log)
    broker.clean()
    broker.clean()
    assert offsets(log) == list(range(12))
    assert caplog.text.count("log.cleaner.dedupe.buffer.size") == 1


# The checkpoint


def test_the_next_broker_goes_on_where_the_last_one_stopped() -> None:
    broker = new_broker()
    fill(broker, b"a", b"a")
    broker.clean()
    broker.cleaner.stop()
    broker.logs.shutdown()
    second = CleaningBroker(broker.disk, {"min_cleanable_dirty_ratio": 0.0})
    fill(second, b"a")
    second.clean()
    assert second.runner.jobs[0].first_dirty_offset == 2
    assert offsets(second.log()) == [2]


def test_a_checkpoint_beyond_the_log_end_starts_over(caplog: pytest.LogCaptureFixture) -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    log.offsets.cleaned_to(99)
    broker.clean()
    assert broker.runner.jobs[0].first_dirty_offset == 0
    assert "which is larger than the log end offset 2" in caplog.text


def test_a_checkpoint_below_the_log_start_starts_there(caplog: pytest.LogCaptureFixture) -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    broker.clean()
    fill(broker, b"a", b"b", b"a")
    log.maybe_increment_log_start_offset(3)
    broker.clean()
    assert broker.runner.jobs[1].first_dirty_offset == 3
    assert "since the checkpointed offset 2 is invalid" in caplog.text


def test_truncation_takes_the_checkpoint_back() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"b", b"c")
    broker.clean()
    log.truncate_to(1)
    assert log.cleaned_end_offset == 1
    broker.cleaner.look()
    assert broker.checkpoint() == ["t 0 1"]


def test_a_log_that_is_compacted_no_more_stays_in_the_checkpoint_and_goes_on_from_there() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    broker.clean()
    kept = broker.checkpoint()
    assert len(kept) == 1
    log.update_config(TopicConfig())
    broker.clean()
    assert broker.checkpoint() == kept
    fill(broker, b"b", b"b")
    log.update_config(broker.topic)
    broker.clean()
    assert broker.runner.jobs[1].first_dirty_offset == 2
    assert offsets(log) == [1, 3]


def test_a_log_with_both_policies_is_cleaned_and_loses_old_segments() -> None:
    broker = new_broker(cleanup_policy=("compact", "delete"), retention_ms=DAY_MS)
    log = fill(broker, b"a", b"a")
    broker.clean()
    assert offsets(log) == [1]
    broker.time.advance(DAY_MS + 1)
    fill(broker, b"b")
    broker.logs.cleanup(broker.time.now_ms())
    broker.clean()
    assert offsets(log) == [2]
    assert log.log_start_offset == 2


# Tombstones


def test_a_tombstone_stays_for_its_time_and_then_goes() -> None:
    broker = new_broker(delete_retention_ms=HOUR_MS)
    log = fill(broker, b"a", b"b")
    broker.write(log, (b"a", None))
    broker.roll(log)
    broker.clean()
    assert offsets(log) == [1, 2]
    broker.time.advance(HOUR_MS - 1)
    fill(broker, b"c")
    broker.clean()
    assert offsets(log) == [1, 2, 3]
    broker.time.advance(1)
    fill(broker, b"d")
    broker.clean()
    assert offsets(log) == [1, 3, 4]


# A log that changes meanwhile


class HeldWrites:
    """A WriteRunner that does nothing until it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], None], Callable[[StorageError | None], None]]] = []
        self.holds = False

    def run(self, work: Callable[[], None], done: Callable[[StorageError | None], None]) -> None:
        self.waiting.append((work, done))
        if not self.holds:
            self.step_all()

    def step(self) -> None:
        work, done = self.waiting.pop(0)
        work()
        done(None)

    def step_all(self) -> None:
        while self.waiting:
            self.step()


def held_broker() -> tuple[CleaningBroker, HeldWrites, Log]:
    """Between the renaming of `.cleaned` to `.swap` and the change of the log."""
    disk = MemoryFileSystem()
    disk.make_directory(DATA)
    writes = HeldWrites()
    broker = CleaningBroker(disk, {"min_cleanable_dirty_ratio": 0.0}, run_write=writes.run)
    log = fill(broker, b"a", b"a", b"b")
    writes.holds = True
    broker.clean()
    assert names(broker, ".log.cleaned")
    writes.step()
    assert names(broker, ".log.swap")
    return broker, writes, log


def test_the_log_is_as_it_was_until_the_swap_is_safe() -> None:
    broker, writes, log = held_broker()
    assert offsets(log) == [0, 1, 2]
    writes.holds = False
    writes.step_all()
    assert offsets(log) == [1, 2]
    assert not names(broker, ".swap", ".cleaned")


def test_retention_overtakes_a_swap() -> None:
    broker, writes, log = held_broker()
    log.maybe_increment_log_start_offset(3)
    delete_old_segments(log, broker.time.now_ms())
    assert not names(broker, ".swap", ".cleaned")
    writes.holds = False
    writes.step_all()
    assert offsets(log) == []
    assert log.cleaned_end_offset is None


def test_truncation_overtakes_a_swap() -> None:
    broker, writes, log = held_broker()
    log.truncate_to(2)
    assert not names(broker, ".swap", ".cleaned")
    writes.holds = False
    writes.step_all()
    assert offsets(log) == [0, 1]


def test_truncation_between_the_last_two_steps_leaves_no_swap_that_comes_back() -> None:
    broker, writes, log = held_broker()
    writes.step()  # the log has changed, the files are still called .swap
    assert offsets(log) == [1, 2]
    log.truncate_fully_and_start_at(0)
    writes.holds = False
    writes.step_all()
    assert not [name for name in names(broker, ".swap") if not name.endswith(".deleted")]
    assert log.log_end_offset == 0


def test_a_deleted_topic_overtakes_a_cleaning() -> None:
    broker = new_broker()
    fill(broker, b"a", b"a")
    broker.cleaner.look()
    broker.logs.delete_log(TopicPartition("t", 0))
    broker.runner.work()
    assert not [n for n in broker.disk.list(DATA) if n == "t-0"]
    assert broker.logs.online_directories


def test_segments_that_went_before_the_swap_leave_no_cleaned_files() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    fill(broker, b"b")
    broker.cleaner.look()
    log.maybe_increment_log_start_offset(2)
    delete_old_segments(log, broker.time.now_ms())
    broker.runner.work()
    assert offsets(log) == [2]
    assert not names(broker, ".swap", ".cleaned")
    broker.clean()
    assert log.cleaned_end_offset == 3


def test_a_reader_of_an_old_segment_goes_on_reading_it() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    info = log.read(0, 1 << 20)
    before = info.records.read()
    broker.clean()
    assert info.records.read() == before


def test_a_stop_aborts_and_leaves_nothing_behind() -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    broker.cleaner.look()
    broker.cleaner.stop()
    broker.runner.work()
    assert offsets(log) == [0, 1]
    assert not names(broker, ".swap", ".cleaned")
    assert broker.time.armed() == 0


# Trouble


def test_a_disk_that_refuses_takes_the_directory_offline() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    broker = new_broker(disk)
    log = fill(broker, b"a", b"a")
    disk.fail("write", "*.cleaned", number=errno.EIO)
    broker.clean()
    assert log.failure is not None
    assert not broker.logs.online_directories


def test_a_full_disk_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    broker = new_broker(disk)
    log = fill(broker, b"a", b"a")
    disk.fail("write", "*.cleaned", number=errno.ENOSPC)
    broker.clean()
    assert log.failure is None
    assert "will be tried again" in caplog.text
    assert not names(broker, ".cleaned")
    disk.heal()
    broker.clean()
    assert offsets(log) == [1]


def test_a_full_disk_in_the_middle_of_a_swap_hides_no_record() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    broker = new_broker(disk)
    log = fill(broker, b"a", b"a", b"b")
    disk.fail("rename", "*/00000000000000000000.log", number=errno.ENOSPC)
    broker.clean()
    assert offsets(log) == [1, 2]
    assert log.failure is None
    fill(broker, b"a")
    broker.clean()
    assert offsets(log) == [1, 2, 3]
    assert restarted_offsets(broker) == [1, 2, 3]


@pytest.mark.parametrize("sync", [1, 2, 3, 4])
def test_a_lack_of_descriptors_in_the_middle_of_a_swap_hides_no_record(sync: int) -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    broker = new_broker(disk)
    log = fill(broker, b"a", b"a", b"b")
    disk.fail("fsync", "*/t-0", number=errno.EMFILE, at=sync)
    broker.clean()
    first = [offset for offset in offsets(log) if offset]
    broker.time.advance(1_000)
    assert not names(broker, ".swap", ".cleaned")
    fill(broker, b"c", b"d")
    broker.cleaner.look()
    while broker.runner.waiting:
        broker.runner.waiting.pop(0)()
        assert offsets(log)[-4:] == [1, 2, 3, 4]
    assert first == [1, 2]
    assert len(log.files.swaps) == 0
    assert restarted_offsets(broker)[-4:] == [1, 2, 3, 4]


def test_a_fault_of_the_program_in_the_middle_of_a_swap_ends_that_cleaning_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker, writes, log = held_broker()
    monkeypatch.setattr(SegmentSwap, "take_over", lambda *_: 1 // 0)
    writes.step()
    monkeypatch.undo()
    writes.holds = False

    assert offsets(log) == [0, 1, 2]
    assert not names(broker, ".swap", ".cleaned")
    broker.write(broker.log("other"), (b"a", b"1"))
    broker.write(broker.log("other"), (b"a", b"2"))
    broker.roll(broker.log("other"))
    broker.clean()
    assert offsets(broker.log("other")) == [1]


def test_a_lack_of_descriptors_at_the_start_of_a_cleaning_does_not_end_it_for_good() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    broker = new_broker(disk)
    log = fill(broker, b"a", b"a")
    disk.fail("*", "*", number=errno.EMFILE, times=None)
    broker.clean()
    disk.heal()
    broker.clean()
    assert offsets(log) == [1]


def test_a_fault_of_one_look_is_not_the_end_of_cleaning(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = new_broker()
    log = fill(broker, b"a", b"a")
    monkeypatch.setattr(broker.runner, "run", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        broker.cleaner.look()
    monkeypatch.undo()

    broker.time.advance(broker.settings.log_cleaner_backoff_ms)
    broker.runner.work()

    assert offsets(log) == [1]


# Producers and markers


def test_the_last_batch_of_an_active_producer_stays_without_records() -> None:
    broker = new_broker()
    log = broker.log()
    broker.write(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    broker.write(log, (b"a", b"2"), producer_id=5, producer_epoch=0, base_sequence=1)
    fill(broker, b"a", b"z")
    broker.clean()
    headers = [header for header, _ in stored_batches(log)]
    assert (headers[0].base_offset, headers[0].record_count, headers[0].size_bytes) == (1, 0, 61)
    assert headers[0].last_sequence == 1


def test_the_last_batch_of_the_range_stays_without_records() -> None:
    broker = new_broker()
    log = broker.log()
    broker.write(log, (b"a", b"1"))
    options = {"producer_id": 5, "producer_epoch": 0}
    broker.write(log, (b"b", b"2"), flags=TRANSACTIONAL_BIT, base_sequence=0, **options)
    marker = build_marker(
        ControlRecord(False, 0), broker.time.now_ms(), options=BatchOptions(**options)
    )
    log.append_as_leader(
        bytearray(marker), 0, broker.time.now_ms(), origin=AppendOrigin.COORDINATOR
    )
    log.update_high_watermark(log.log_end_offset)
    broker.roll(log)
    broker.clean()
    assert offsets(log) == [0]
    assert [header.last_offset for header, _ in stored_batches(log)][-1] == 2


def test_a_cleaned_segment_is_as_old_as_the_newest_one_it_was_made_from() -> None:
    disk = MemoryFileSystem()
    broker = new_broker(disk)
    log = fill(broker, b"a", b"b")
    disk.set_modified_ms(log.segments[0].records.path, 1_600_000_000_000)
    fill(broker, b"c")
    disk.set_modified_ms(log.segments[1].records.path, 1_600_000_005_000)
    broker.clean()
    assert log.segments.base_offsets == [0, 3]
    assert disk.modified_ms(log.segments[0].records.path) == 1_600_000_005_000


def test_the_transaction_index_of_a_cleaned_log_is_believed_at_the_next_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = new_broker()
    log = broker.log()
    producer = {"producer_id": 5, "producer_epoch": 0}
    for sequence in range(2):  # of the first batch nothing is left, of the second its header
        broker.write(log, (b"a", b"1"), flags=TRANSACTIONAL_BIT, base_sequence=sequence, **producer)
    marker = build_marker(
        ControlRecord(False, 0), broker.time.now_ms(), options=BatchOptions(**producer)
    )
    log.append_as_leader(
        bytearray(marker), 0, broker.time.now_ms(), origin=AppendOrigin.COORDINATOR
    )
    log.update_high_watermark(log.log_end_offset)
    fill(broker, b"z")
    broker.clean()
    path = log.segments[0].transaction_index.path
    before = broker.disk.read_bytes(path)
    assert [header.base_offset for header, _ in stored_batches(log)] == [1, 2, 3]
    assert len(before) == 34
    broker.cleaner.stop()
    broker.logs.shutdown()

    CleaningBroker(broker.disk, {"min_cleanable_dirty_ratio": 0.0})

    assert broker.disk.read_bytes(path) == before
    assert "Rebuilding" not in caplog.text


def test_an_aborted_transaction_hides_no_later_data_of_its_producer() -> None:
    """Its marker is before the dirty part, and its entry still in the transaction index."""
    broker = new_broker(delete_retention_ms=HOUR_MS)
    log = fill(broker, b"a")
    producer = {"producer_id": 7, "producer_epoch": 0}
    for sequence, value, is_commit in ((0, b"1", False), (1, None, True)):
        broker.write(
            log, (b"a", value), flags=TRANSACTIONAL_BIT, base_sequence=sequence, **producer
        )
        marker = build_marker(
            ControlRecord(is_commit, 0), broker.time.now_ms(), options=BatchOptions(**producer)
        )
        log.append_as_leader(bytearray(marker), 0, 1, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        broker.roll(log)
        broker.clean()
    assert [(record.offset, record.value) for record in stored_records(log)] == [(3, None)]

    broker.time.advance(2 * HOUR_MS)
    fill(broker, b"b", log=log)
    broker.clean()

    assert [record.key for record in stored_records(log)] == [b"b"]


def test_many_small_segments_are_swapped_in_with_four_syncs_of_the_directory() -> None:
    disk = FailingFileSystem(MemoryFileSystem())
    broker = new_broker(disk, segment_bytes=100)
    log = fill(broker, *[b"%d" % number for number in range(12)])
    disk.log = []
    broker.clean()
    syncs = [path for operation, path in disk.log if operation == "fsync" and path.endswith("t-0")]
    assert len(broker.runner.jobs[0].segments) == 12
    assert len(syncs) == 4
    assert offsets(log) == list(range(12))
