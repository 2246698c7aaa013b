"""Which appends are duplicates once a log was cut, emptied, or opened again: those of batches that
were written and are not known to be lost, and no new one.
"""

from __future__ import annotations

import os
from pathlib import Path

from kbroker.log.partition.log import Log
from kbroker.log.producers.producer_snapshot import ProducerSnapshots
from kbroker.log.producers.producer_state import MAX_SEQUENCE, BatchMetadata, ProducerStateEntry
from kbroker.log.producers.recent_batches import RECENT_MS
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log
from tests.faults.crash_model import split
from tests.faults.crash_producers import faults_of_remembered

PRODUCER_ID = 7


def append(log: Log, sequence: int, count: int = 1, bytes_each: int = 1) -> tuple[int, bool]:
    """Offset of a batch, and whether it is a duplicate."""
    values = [bytes(bytes_each)] * count
    records = batch(*values, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
    info = log.append_as_leader(memoryview(records), 0, NOW_MS)
    return info.first_offset, info.duplicate


def delete_below(log: Log, offset: int) -> None:
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(offset)


def faults(log: Log) -> list[str]:
    data = b"".join(segment.records.read(0, segment.size_bytes) for segment in log.segments)
    return list(faults_of_remembered(log, (header for header, _ in split(data)), 0))


def plant_snapshot(log: Log, offset: int, remembered: BatchMetadata) -> None:
    """A snapshot of another life of the log, as a power loss may bring it back."""
    entry = ProducerStateEntry(PRODUCER_ID, 0)
    entry.add_batch(remembered)
    snapshots = ProducerSnapshots(log.partition_directory.environment.file_system, log.directory)
    snapshots.write(offset, [entry])


def test_a_new_row_of_sequences_is_not_taken_for_an_old_one_below_the_log_start(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0")
    assert [append(log, sequence) for sequence in range(3)] == [(n, False) for n in range(3)]
    delete_below(log, 3)
    log.close()
    # Nothing is left of the producer, who starts anew. Then the note of the log start is lost.
    log = open_log(tmp_path / "t-0", recovery_point=3, start=3)
    assert append(log, 0) == (3, False)
    log = open_log(tmp_path / "t-0", was_clean=False)
    delete_below(log, 2)

    assert faults(log) == []
    assert append(log, 0) == (3, True)
    assert append(log, 1) == (4, False)


def test_a_batch_below_the_log_start_that_is_sent_again_is_a_duplicate(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    delete_below(log, 2)
    assert append(log, 1) == (1, True)
    log.close()

    log = open_log(tmp_path / "t-0", recovery_point=3, start=2)

    assert faults(log) == []
    assert append(log, 2) == (2, True)
    assert append(log, 3) == (3, False)


def test_a_batch_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(4):
        append(log, sequence)
    log.producers.take_snapshot()

    log.truncate_to(2, NOW_MS)

    assert faults(log) == []
    assert append(log, 1) == (1, True)
    assert append(log, 2) == (2, False)


def test_a_snapshot_beyond_the_log_end_does_not_make_lost_batches_duplicates(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    plant_snapshot(log, 5, BatchMetadata(3, 4, 3, 4, NOW_MS))

    log = open_log(tmp_path / "t-0", was_clean=False)

    assert faults(log) == []
    assert append(log, 3, 2) == (3, False)


def test_a_snapshot_of_another_life_within_what_is_recovered_is_not_believed(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    plant_snapshot(log, 2, BatchMetadata(3, 3, 1, 1, NOW_MS))

    log = open_log(tmp_path / "t-0", was_clean=False)
    log.truncate_to(2, NOW_MS)

    assert faults(log) == []
    assert append(log, 1) == (1, True)
    assert append(log, 2) == (2, False)


def test_a_snapshot_of_another_life_behind_a_gap_is_not_believed(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, 0)
    size_bytes = log.segments.active.size_bytes
    log.append_as_leader(memoryview(batch(b"cleaned")), 0, NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(memoryview(batch(b"v")), 0, NOW_MS)
    os.truncate(tmp_path / "t-0" / f"{0:020}.log", size_bytes)
    plant_snapshot(log, 2, BatchMetadata(1, 1, 1, 1, NOW_MS))

    log = open_log(tmp_path / "t-0", was_clean=False)

    assert faults(log) == []
    assert append(log, 0) == (0, True)
    assert append(log, 1) == (3, False)


def test_a_snapshot_whose_content_is_lost_is_passed_over(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    log.roll(NOW_MS)
    (tmp_path / "t-0" / f"{3:020}.snapshot").write_bytes(b"")

    log = open_log(tmp_path / "t-0", was_clean=False, recovery_point=3)

    assert faults(log) == []
    assert append(log, 2) == (2, True)
    assert append(log, 3) == (3, False)


def test_a_log_that_starts_elsewhere_remembers_nobody_of_before(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, 0)
    log.producers.take_snapshot()
    log.truncate_fully_and_start_at(10, NOW_MS)
    plant_snapshot(log, 10, BatchMetadata(1, 1, 9, 9, NOW_MS))

    log = open_log(tmp_path / "t-0", was_clean=False, start=10)

    assert append(log, 0) == (10, False)
    assert append(log, 1) == (11, False)
    assert faults(log) == []


def test_sequences_that_wrap_are_one_row_also_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    append(log, MAX_SEQUENCE - 1, 2)
    append(log, 0, 2)
    log.close()

    log = open_log(tmp_path / "t-0", recovery_point=4)
    assert append(log, 0, 2) == (2, True)
    assert append(log, 2) == (4, False)
    log = open_log(tmp_path / "t-0", was_clean=False)

    assert faults(log) == []
    assert append(log, MAX_SEQUENCE - 1, 2) == (0, True)
    assert append(log, 3) == (5, False)


def test_all_batches_in_flight_are_known_after_a_clean_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(8):
        append(log, sequence)
    log.close()

    log = open_log(tmp_path / "t-0", recovery_point=8)

    assert faults(log) == []
    assert [append(log, sequence) for sequence in range(3, 9)] == [
        *((sequence, True) for sequence in range(3, 8)),
        (8, False),
    ]


def test_batches_in_flight_are_found_among_those_of_others_and_in_other_segments(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0", index_interval_bytes=100)
    for sequence in range(5):
        append(log, sequence)
        for _ in range(3):
            log.append_as_leader(memoryview(batch(bytes(9_000))), 0, NOW_MS)
        if sequence == 2:
            log.roll(NOW_MS)
    end_offset = log.log_end_offset
    log.close()

    log = open_log(tmp_path / "t-0", recovery_point=end_offset, index_interval_bytes=100)

    assert faults(log) == []
    assert [append(log, n) for n in range(6)] == [
        *((4 * n, True) for n in range(5)),
        (end_offset, False),
    ]


def test_a_cut_back_to_a_snapshot_leaves_the_batches_before_it_known(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    log.producers.take_snapshot()
    append(log, 3)

    log.truncate_to(3, NOW_MS)

    assert faults(log) == []
    assert [append(log, n) for n in range(4)] == [(0, True), (1, True), (2, True), (3, False)]


def remembered(log: Log) -> list[int]:
    """The first sequences of the batches of the only producer."""
    (entry,) = log.producer_state.producers.values()
    return [each.first_sequence for each in entry.batches]


def test_batches_of_megabytes_and_with_the_times_of_events_are_known_after_a_clean_restart(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0", max_message_bytes=4_000_000)
    for sequence in range(5):
        append(log, sequence, bytes_each=3_000_000)
    (entry,) = log.producer_state.producers.values()
    entry.last_timestamp = NOW_MS - 10 * RECENT_MS
    log.close()

    assert remembered(open_log(tmp_path / "t-0", recovery_point=5)) == [0, 1, 2, 3, 4]


def test_nothing_is_looked_for_of_producers_that_are_silent_for_long(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", index_interval_bytes=100)
    for sequence in range(3):
        append(log, sequence)
    (entry,) = log.producer_state.producers.values()
    entry.last_timestamp = NOW_MS - RECENT_MS
    for _ in range(5):
        log.append_as_leader(memoryview(batch(bytes(9_000))), 0, NOW_MS)
    log.close()

    log = open_log(tmp_path / "t-0", recovery_point=8, index_interval_bytes=100)

    assert remembered(log) == [2]


def test_nothing_is_looked_for_in_a_log_that_nobody_has_written_to_for_long(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    log.close()
    long_ago_s = (NOW_MS - RECENT_MS) / 1000
    os.utime(tmp_path / "t-0" / f"{0:020}.log", (long_ago_s, long_ago_s))

    assert remembered(open_log(tmp_path / "t-0", recovery_point=3)) == [2]


def test_of_very_many_small_batches_only_the_last_are_looked_through(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", index_interval_bytes=1 << 20)
    for sequence in range(3):
        append(log, sequence)
    for _ in range(1_300):
        log.append_as_leader(memoryview(batch(b"v")), 0, NOW_MS)
    log.close()

    log = open_log(tmp_path / "t-0", recovery_point=1_303, index_interval_bytes=1 << 20)

    assert remembered(log) == [2]


def test_damage_ends_the_search_for_batches_and_nothing_else(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for sequence in range(3):
        append(log, sequence)
    size_bytes = log.segments.active.size_bytes // 3
    log.close()
    with (tmp_path / "t-0" / f"{0:020}.log").open("r+b") as file:
        file.seek(size_bytes + 16)  # the magic byte of the second one
        file.write(b"\x7f")

    log = open_log(tmp_path / "t-0", recovery_point=3)

    (entry,) = log.producer_state.producers.values()
    assert [remembered.first_sequence for remembered in entry.batches] == [2]
