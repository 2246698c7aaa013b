"""Opening a partition directory: leftovers, bad indexes, recovery after an unclean stop."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.record.record_batch import TRANSACTIONAL_BIT
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log, read_values
from tests.fakes.logs.verified_batches import verified

FIRST = "00000000000000000000"
SECOND = "00000000000000000002"


def values(log: Log) -> list[bytes | None]:
    found: list[bytes | None] = []
    for segment in log.segments:
        found += read_values(segment.records.read(0, segment.size_bytes))
    return found


def written(directory: Path, **settings: Any) -> Log:
    """Two segments of two batches each, epochs 0 and 1, one idempotent producer; still open."""
    log = open_log(directory, segment_bytes=360, **settings)
    for index in range(4):
        data = batch(b"%d" % index * 90, producer_id=5, producer_epoch=0, base_sequence=index)
        log.append_as_leader(data, index // 2, NOW_MS)
    assert log.segments.base_offsets == [0, 2]
    return log


def crashed(directory: Path, copy: Path) -> Path:
    """The directory of a broker that was killed: what it wrote, as it lay there."""
    written(directory)
    shutil.copytree(directory, copy)
    return copy


ALL = [b"0" * 90, b"1" * 90, b"2" * 90, b"3" * 90]


def test_a_cleanly_closed_log_opens_as_it_was(tmp_path: Path) -> None:
    written(tmp_path).close()

    log = open_log(tmp_path)

    assert values(log) == ALL
    assert (log.log_start_offset, log.log_end_offset, log.offsets.recovery_point) == (0, 4, 4)
    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]
    assert log.producer_state.producers[5].last_sequence == 3


def test_a_log_that_was_killed_opens_with_all_it_wrote(tmp_path: Path) -> None:
    log = open_log(crashed(tmp_path / "a", tmp_path / "b"), was_clean=False)

    assert values(log) == ALL
    assert (log.log_end_offset, log.offsets.recovery_point) == (4, 0)
    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]
    assert [b.first_sequence for b in log.producer_state.producers[5].batches] == [0, 1, 2, 3]


@pytest.mark.parametrize("cut", [1, 60, 100, 158])
def test_a_torn_last_batch_is_cut_off(tmp_path: Path, cut: int) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    data = directory / f"{SECOND}.log"
    data.write_bytes(data.read_bytes()[:-cut])

    log = open_log(directory, was_clean=False)

    assert values(log) == ALL[:3]
    assert log.log_end_offset == 3
    assert log.append_as_leader(batch(b"new"), 1, NOW_MS).first_offset == 3
    assert open_log(directory, was_clean=False).log_end_offset == 4


@pytest.mark.parametrize("tail", [b"\0" * 40, b"\0" * 5000, b"\xff" * 99, b"garbage"])
def test_what_is_behind_the_last_batch_is_cut_off(tmp_path: Path, tail: bytes) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    with (directory / f"{SECOND}.log").open("ab") as data:
        data.write(tail)

    assert values(open_log(directory, was_clean=False)) == ALL


def test_what_was_cut_off_does_not_come_back_amid_what_was_appended_then(tmp_path: Path) -> None:
    """A power loss takes some of the pages that were not synced: the cut of a file, and not what
    came later. A batch of the same size may have taken the place of the one that was cut off.
    """
    log = written(tmp_path / "a")
    before = (tmp_path / "a" / f"{SECOND}.log").read_bytes()
    log.truncate_to(3)
    for name in (b"new", b"one more"):
        log.append_as_leader(batch(name.ljust(90, b".")), 2, NOW_MS)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    size = len(before) // 2
    for path in (tmp_path / "b").glob("*.log"):
        if path.stem == SECOND:
            path.write_bytes(before + path.read_bytes()[2 * size :])

    log = open_log(tmp_path / "b", was_clean=False)

    assert values(log) == ALL[:3]


@pytest.mark.parametrize("recovery_point", [0, 4])
@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_log_that_begins_earlier_again_has_the_epochs_of_what_came_back(
    tmp_path: Path, start: int, recovery_point: int
) -> None:
    """Deleted records are back where the note of it is lost; the file of epochs was cut already."""
    log = written(tmp_path / "a")
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(start)
    assert log.leader_epoch_cache.entries[0].start_offset == start
    shutil.copytree(tmp_path / "a", tmp_path / "b")

    log = open_log(tmp_path / "b", was_clean=False, recovery_point=recovery_point)

    assert (log.log_start_offset, log.log_end_offset) == (0, 4)
    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]


def test_segments_behind_a_broken_batch_are_removed(tmp_path: Path) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    data = directory / f"{FIRST}.log"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)

    log = open_log(directory, was_clean=False)

    assert values(log) == ALL[:1]
    assert not (directory / f"{SECOND}.log").exists()
    assert log.leader_epoch_cache.entries == [(0, 0)]
    assert log.producer_state.producers[5].last_sequence == 0


def test_batches_below_the_recovery_point_are_taken_at_their_word(tmp_path: Path) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    data = directory / f"{FIRST}.log"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)

    assert open_log(directory, was_clean=False, recovery_point=2).log_end_offset == 4


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("stem", [FIRST, SECOND])
def test_missing_indexes_are_rebuilt(tmp_path: Path, stem: str, suffix: str) -> None:
    written(tmp_path, index_interval_bytes=1).close()
    index = tmp_path / f"{stem}.{suffix}"
    content = index.read_bytes()
    index.unlink()

    log = open_log(tmp_path, index_interval_bytes=1)

    assert index.read_bytes() == content
    assert values(log) == ALL
    assert log.producer_state.producers[5].last_sequence == 3


@pytest.mark.parametrize("spoiled", [b"\xff" * 16, b"\0" * 7])
def test_broken_indexes_are_rebuilt(tmp_path: Path, spoiled: bytes) -> None:
    written(tmp_path, index_interval_bytes=1).close()
    index = tmp_path / f"{FIRST}.index"
    content = index.read_bytes()
    index.write_bytes(spoiled)

    open_log(tmp_path, index_interval_bytes=1)

    assert index.read_bytes() == content


def test_an_index_without_a_segment_is_removed(tmp_path: Path) -> None:
    written(tmp_path).close()
    stray = tmp_path / "00000000000000000099.index"
    stray.write_bytes(b"")

    open_log(tmp_path)

    assert not stray.exists()


def test_deleted_and_cleaned_leftovers_go(tmp_path: Path) -> None:
    written(tmp_path).close()
    (tmp_path / f"{FIRST}.log.cleaned").write_bytes(b"half")
    (tmp_path / f"{FIRST}.index.deleted").write_bytes(b"")

    assert values(open_log(tmp_path)) == ALL
    assert not list(tmp_path.glob("*.cleaned")) + list(tmp_path.glob("*.deleted"))


def test_a_swap_takes_the_place_of_the_segments_it_was_made_from(tmp_path: Path) -> None:
    written(tmp_path).close()
    compacted = batch(b"kept", base_offset=1) + batch(b"last", base_offset=3)
    (tmp_path / f"{FIRST}.log.swap").write_bytes(compacted)
    (tmp_path / f"{FIRST}.index.swap").write_bytes(b"")
    (tmp_path / f"{FIRST}.timeindex.swap").write_bytes(b"")

    log = open_log(tmp_path)

    assert values(log) == [b"kept", b"last"]
    assert (log.segments.base_offsets, log.log_end_offset) == ([0], 4)
    assert not list(tmp_path.glob("*.swap"))


def test_the_index_of_a_swap_without_its_data_is_dropped(tmp_path: Path) -> None:
    log = written(tmp_path)
    log.close()
    index = tmp_path / f"{FIRST}.index"
    before = index.read_bytes()
    (tmp_path / f"{FIRST}.index.swap").write_bytes(b"\0" * 8)

    log = open_log(tmp_path)

    assert values(log) == ALL
    assert index.read_bytes() == before
    assert not list(tmp_path.glob("*.swap"))


def test_a_swap_of_an_unfinished_split_is_dropped(tmp_path: Path) -> None:
    written(tmp_path).close()
    (tmp_path / f"{FIRST}.log.cleaned").write_bytes(b"")
    (tmp_path / f"{SECOND}.log.swap").write_bytes(batch(b"half", base_offset=2))

    assert values(open_log(tmp_path)) == ALL


def test_missing_snapshots_are_made_again_from_the_log(tmp_path: Path) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    snapshots = list(directory.glob("*.snapshot"))
    assert snapshots
    for snapshot in snapshots:
        snapshot.unlink()

    log = open_log(directory, was_clean=False)

    assert log.producer_state.producers[5].last_sequence == 3
    assert sorted(p.name for p in directory.glob("*.snapshot")) == [
        f"{SECOND}.snapshot",
        "00000000000000000004.snapshot",
    ]


def test_a_broken_snapshot_is_passed_over(tmp_path: Path) -> None:
    written(tmp_path).close()
    newest = tmp_path / "00000000000000000004.snapshot"
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x07")

    log = open_log(tmp_path)

    assert log.producer_state.producers[5].last_sequence == 3


@pytest.mark.parametrize("stem", [FIRST, SECOND])
def test_an_index_made_anew_after_a_clean_stop_costs_no_producer(tmp_path: Path, stem: str) -> None:
    log = open_log(tmp_path, segment_bytes=360)
    for index, producer_id in enumerate((7, 8, 8, 8)):
        sequence = max(index - 1, 0)
        options: dict[str, Any] = {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": sequence,
        }
        log.append_as_leader(batch(b"%d" % index * 90, **options), 0, NOW_MS)
    log.close()
    snapshot = tmp_path / "00000000000000000004.snapshot"
    before = snapshot.read_bytes()
    (tmp_path / f"{stem}.index").unlink()

    again = open_log(tmp_path, start=3)

    assert sorted(again.producer_state.producers) == [7, 8]
    assert again.producer_state.producers[8].last_sequence == 2
    assert snapshot.read_bytes() == before


def test_a_broken_epoch_file_is_made_again_from_the_log(tmp_path: Path) -> None:
    written(tmp_path).close()
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n7\n")

    log = open_log(tmp_path)

    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 2\n"


def test_an_open_transaction_is_open_again_after_a_crash(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    options: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch(b"plain"), 0, NOW_MS)
    begins = batch(b"txn", flags=TRANSACTIONAL_BIT, **options)
    log.append_as_leader(verified(log, begins), 0, NOW_MS)

    again = open_log(tmp_path, was_clean=False)
    again.update_high_watermark(2)

    assert again.last_stable_offset == 1
    assert len(again.read(1, 1000, FetchIsolation.TXN_COMMITTED).records) == 0


def test_the_log_start_of_the_checkpoint_counts(tmp_path: Path) -> None:
    written(tmp_path).close()

    log = open_log(tmp_path, start=3)

    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (3, 3, 4)


def test_a_start_behind_the_end_costs_no_record(tmp_path: Path) -> None:
    written(tmp_path).close()

    log = open_log(tmp_path, start=10)

    assert (log.log_start_offset, log.log_end_offset) == (0, 4)
    assert values(log) == ALL


def test_an_empty_log_is_started_anew_at_its_start(tmp_path: Path) -> None:
    open_log(tmp_path).close()

    log = open_log(tmp_path, start=10)

    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert log.append_as_leader(batch(b"x"), 2, NOW_MS).first_offset == 10
    assert [path.name for path in tmp_path.glob("*.log")] == ["00000000000000000010.log"]


def test_expired_producers_are_not_loaded(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    old = NOW_MS - 86_400_000
    data = batch(b"x", timestamp=old, producer_id=5, producer_epoch=0, base_sequence=0)
    log.append_as_leader(data, 0, NOW_MS)
    log.close()

    assert open_log(tmp_path).producer_state.producers == {}


def test_closing_writes_a_snapshot_and_trims_indexes(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"x"), 0, NOW_MS)
    log.close()

    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {
        f"{FIRST}.log": len(batch(b"x")),
        f"{FIRST}.index": 0,
        f"{FIRST}.timeindex": 12,
        "00000000000000000001.snapshot": 10,
        "leader-epoch-checkpoint": 8,
    }


def without_the_end_of_its_first_segment(directory: Path, copy: Path) -> Path:
    """A power loss took the second batch, and nothing that came after it."""
    crashed(directory, copy)
    data = copy / f"{FIRST}.log"
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    return copy


def test_segments_behind_records_that_are_missing_are_removed(tmp_path: Path) -> None:
    directory = without_the_end_of_its_first_segment(tmp_path / "a", tmp_path / "b")

    log = open_log(directory, was_clean=False, gapless_from=0)

    assert (values(log), log.log_end_offset) == (ALL[:1], 1)
    assert not (directory / f"{SECOND}.log").exists()


def test_a_segment_cut_while_its_index_was_rebuilt_is_followed_by_none(tmp_path: Path) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    data = directory / f"{FIRST}.log"
    data.write_bytes(data.read_bytes()[:-3])
    (directory / f"{FIRST}.index").write_bytes(b"\xff" * 16)

    log = open_log(directory, was_clean=False, recovery_point=1)

    assert (values(log), log.log_end_offset) == (ALL[:1], 1)


def test_segments_of_an_earlier_epoch_that_a_power_loss_brought_back_are_removed(
    tmp_path: Path,
) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    log = open_log(tmp_path / "c", segment_bytes=360)
    for index in range(2):
        options: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "base_sequence": index}
        log.append_as_leader(batch(b"n" * 90, **options), 7, NOW_MS)
    first = f"{FIRST}.log"
    (directory / first).write_bytes((tmp_path / "c" / first).read_bytes())

    again = open_log(directory, was_clean=False, gapless_from=0)

    assert values(again) == [b"n" * 90] * 2
    assert again.leader_epoch_cache.entries == [(7, 0)]
    assert (directory / f"{SECOND}.snapshot").exists()  # of the log end


def test_a_log_that_ends_before_its_recovery_point_is_checked_from_its_start(
    tmp_path: Path,
) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    first = directory / f"{FIRST}.log"
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)

    log = open_log(directory, recovery_point=43, was_clean=False)  # of a deleted log

    assert values(log) == ALL[:1]
    assert log.log_end_offset == 1


@pytest.mark.parametrize("gapless_from", [None, 2, 100])
@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_where_a_log_may_have_gaps_a_segment_may_lack_its_end(
    tmp_path: Path, policy: str, gapless_from: int | None
) -> None:
    directory = without_the_end_of_its_first_segment(tmp_path / "a", tmp_path / "b")

    log = open_log(directory, was_clean=False, cleanup_policy=(policy,), gapless_from=gapless_from)

    assert values(log) == [ALL[0], *ALL[2:]]


def test_deleted_records_do_not_speak_against_the_leader_epochs(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"a", b"b", b"c"), 3, NOW_MS)
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(3)
    log.close()
    before = (tmp_path / "leader-epoch-checkpoint").read_text()

    open_log(tmp_path, recovery_point=3, start=3).close()

    assert (tmp_path / "leader-epoch-checkpoint").read_text() == before == "0\n1\n3 3\n"


def test_a_gap_that_a_cleaner_left_is_no_missing_end_whatever_the_settings_say_now(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, segment_bytes=150)
    for index in range(3):
        log.append_as_follower(batch(b"v" * 50, base_offset=10 * index))
    log.close()

    found = open_log(tmp_path, was_clean=False, gapless_from=20)

    assert found.segments.base_offsets == [0, 10, 20]
    assert found.log_end_offset == 21
    found.close()


def test_an_index_entry_for_several_batches_appended_at_once_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(tmp_path, index_interval_bytes=10)
    for first in range(0, 9, 3):  # Kafka 3 enters the last offset and where the first batch begins
        batches = [batch(b"v", base_offset=first + index) for index in range(3)]
        log.append_as_follower(b"".join(batches))
    log.close()
    index = (tmp_path / "00000000000000000000.index").read_bytes()

    found = open_log(tmp_path, recovery_point=9)
    found_values = [
        read_values(found.read(offset, 1, FetchIsolation.LOG_END, True).records.read())
        for offset in range(9)
    ]
    found.close()

    assert index == struct.pack(">iiii", 5, 210, 8, 420)
    assert found_values == [[b"v"]] * 9
    assert (tmp_path / "00000000000000000000.index").read_bytes() == index
    assert not caplog.records


def test_an_epoch_of_records_that_were_lost_gives_way_to_the_batches_found(tmp_path: Path) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 2\n4 3\n")

    log = open_log(directory, was_clean=False)

    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]


def test_records_that_a_power_loss_gave_back_have_their_epoch_also_before_a_later_one(
    tmp_path: Path,
) -> None:
    """They were cut off, which never got to the disk; what replaced them was noted, and is lost."""
    directory = crashed(tmp_path / "a", tmp_path / "b")
    (directory / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 7\n")

    log = open_log(directory, was_clean=False)

    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]


@pytest.mark.parametrize("left", [b"", bytes(43), b"version: 0\ntopic_id: Av"])
def test_a_topic_id_spoiled_by_a_power_loss_is_learned_anew(tmp_path: Path, left: bytes) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    (directory / "partition.metadata").write_bytes(left)

    open_log(directory, was_clean=False).close()
    log = open_log(directory)
    log.assign_topic_id(UUID(int=5))

    assert values(log) == ALL
    assert open_log(directory, was_clean=False).topic_id == UUID(int=5)


def test_an_empty_log_keeps_its_start_over_a_clean_restart(tmp_path: Path) -> None:
    open_log(tmp_path, was_clean=False, start=37).close()

    log = open_log(tmp_path)

    assert (log.log_start_offset, log.log_end_offset) == (37, 37)


def test_an_epoch_file_emptied_by_a_power_loss_is_made_anew(tmp_path: Path) -> None:
    directory = crashed(tmp_path / "a", tmp_path / "b")
    (directory / "leader-epoch-checkpoint").write_bytes(b"")

    log = open_log(directory, was_clean=False, recovery_point=4)

    assert log.leader_epoch_cache.entries == [(0, 0), (1, 2)]


def test_a_start_noted_beyond_the_end_costs_no_producer(tmp_path: Path) -> None:
    """The log starts with its first segment then, and knows who wrote from there on."""
    log = open_log(tmp_path)
    log.append_as_leader(batch(b"v", producer_id=7, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    log.roll(NOW_MS)
    log.append_as_leader(batch(b"v", producer_id=8, producer_epoch=0, base_sequence=0), 0, NOW_MS)
    log.files.close_files()

    again = open_log(tmp_path, was_clean=False, recovery_point=1, start=99)

    assert (again.log_start_offset, again.log_end_offset) == (0, 2)
    assert set(again.producer_state.producers) == {7, 8}
