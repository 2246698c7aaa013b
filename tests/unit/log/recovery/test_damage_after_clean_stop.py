"""Damage in a log that was stopped cleanly, or below the recovery point of one that was not: it
costs the batches it hit, whatever has to be made anew beside it, and no offset is given twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.partition.log_replay import LogReplay, ReplayGap
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.log.segments.found_records import DamagedBatchError
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchOptions, ControlRecord, build_marker
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log, read_values
from tests.fakes.logs.verified_batches import verified

SETTINGS: dict[str, Any] = {"segment_bytes": 700, "index_interval_bytes": 150}
BATCH_BYTES = len(batch(b"00" * 45))
COUNT = 12
BASES = [0, 4, 8]


def stopped(directory: Path) -> None:
    """Three segments of four batches, a leader epoch for each two batches."""
    log = open_log(directory, **SETTINGS)
    for index in range(COUNT):
        data = batch(b"%02d" % index * 45, producer_id=5, producer_epoch=0, base_sequence=index)
        log.append_as_leader(data, index // 2, NOW_MS + index)
    assert log.segments.base_offsets == BASES
    log.close()


def data_of(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020d}.log"


def damage(directory: Path, offset: int) -> None:
    base_offset = max(base for base in BASES if base <= offset)
    path = data_of(directory, base_offset)
    content = bytearray(path.read_bytes())
    content[(offset - base_offset + 1) * BATCH_BYTES - 1] ^= 1
    path.write_bytes(content)


def reopened(directory: Path, **named: Any) -> Log:
    return open_log(directory, **({"recovery_point": COUNT} | named), **SETTINGS)


def served(log: Log) -> list[int]:
    found = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            read = log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True)
        except DamagedBatchError:
            continue
        if read_values(read.records.read()) == [b"%02d" % offset * 45]:
            found.append(offset)
    return found


def all_but(*offsets: int) -> list[int]:
    return [offset for offset in range(COUNT) if offset not in offsets]


def sizes(directory: Path) -> list[int]:
    return [path.stat().st_size for path in sorted(directory.glob("*.log"))]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("left", [None, b"\xff" * 17])
@pytest.mark.parametrize("offset", [1, 4, 5, 9, 11])
def test_an_index_made_anew_beside_damage_costs_no_sound_batch(
    tmp_path: Path, suffix: str, left: bytes | None, offset: int
) -> None:
    stopped(tmp_path)
    before = sizes(tmp_path)
    damage(tmp_path, offset)
    index = data_of(tmp_path, offset // 4 * 4).with_suffix(suffix)
    if left is None:
        index.unlink()
    else:
        index.write_bytes(left)

    log = reopened(tmp_path)

    assert (log.log_end_offset, served(log)) == (COUNT, all_but(offset))
    assert log.producer_state.producers[5].last_sequence == COUNT - 1
    log.close()
    assert sizes(tmp_path) == before
    again = reopened(tmp_path)
    assert (again.log_end_offset, served(again)) == (COUNT, all_but(offset))


def test_below_the_recovery_point_of_a_killed_broker_it_costs_none_either(tmp_path: Path) -> None:
    stopped(tmp_path)
    damage(tmp_path, 5)
    data_of(tmp_path, 4).with_suffix(".index").unlink()

    log = reopened(tmp_path, was_clean=False, recovery_point=9, gapless_from=0)

    assert (log.log_end_offset, served(log)) == (COUNT, all_but(5))


def test_a_transaction_index_made_anew_beside_damage_costs_no_sound_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    options: dict[str, Any] = {"producer_id": 9, "producer_epoch": 0}
    txn = batch(b"txn", flags=TRANSACTIONAL_BIT, base_sequence=0, **options)
    log.append_as_leader(verified(log, txn), 0, NOW_MS)
    marker = build_marker(ControlRecord(False, 0), NOW_MS, options=BatchOptions(**options))
    log.append_as_leader(bytearray(marker), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    for _ in range(3):
        log.append_as_leader(batch(b"v" * 90), 0, NOW_MS)
    log.close()
    data = data_of(tmp_path, 0)
    content = bytearray(data.read_bytes())
    content[-len(batch(b"v" * 90)) - 1] ^= 1  # offset 3
    data.write_bytes(content)
    index = data.with_suffix(".txnindex")
    noted = index.read_bytes()
    index.write_bytes(noted[:-1])

    again = open_log(tmp_path, recovery_point=5)

    assert again.log_end_offset == 5
    assert data.read_bytes() == content
    assert index.read_bytes() == noted


@pytest.mark.parametrize("left", [b"0\n7\n", b"\xff\xfe", b"0\n2\n3 0\n1 4\n"])
@pytest.mark.parametrize("offset", [0, 5, 11])
def test_epochs_are_learned_around_damage(tmp_path: Path, left: bytes, offset: int) -> None:
    stopped(tmp_path)
    before = sizes(tmp_path)
    damage(tmp_path, offset)
    (tmp_path / "leader-epoch-checkpoint").write_bytes(left)

    log = reopened(tmp_path)

    learned = [(at // 2, at) for at in range(0, COUNT, 2)]
    if offset == 0:
        learned[0] = (0, 1)  # the first sound batch that tells it
    assert log.leader_epoch_cache.entries == learned
    assert (log.log_end_offset, served(log), sizes(tmp_path)) == (COUNT, all_but(offset), before)
    text = "".join(f"{epoch} {at}\n" for epoch, at in learned)
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == f"0\n{len(learned)}\n{text}"


def test_lost_epochs_cost_a_killed_broker_nothing_below_its_recovery_point(tmp_path: Path) -> None:
    stopped(tmp_path)
    damage(tmp_path, 2)
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")

    log = reopened(tmp_path, was_clean=False, recovery_point=8)

    assert (log.log_end_offset, served(log)) == (COUNT, all_but(2))
    assert log.leader_epoch_cache.entries == [(0, 0), (1, 3), (2, 4), (3, 6), (4, 8), (5, 10)]


@pytest.mark.parametrize("epochs", [None, b"0\n7\n"])
@pytest.mark.parametrize("left", [0, 1, 3])
def test_no_offset_is_given_twice_where_the_last_segment_lost_its_end(
    tmp_path: Path, left: int, epochs: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    stopped(tmp_path)
    data = data_of(tmp_path, 8)
    data.write_bytes(data.read_bytes()[: left * BATCH_BYTES])
    if epochs is not None:
        (tmp_path / "leader-epoch-checkpoint").write_bytes(epochs)

    log = reopened(tmp_path)

    assert log.log_end_offset == COUNT
    assert served(log) == list(range(8 + left))
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert [f"ends at {8 + left}, but ended at 12 after" in message for message in told] == [True]
    # Nor after a kill, whether the recovery point was written meanwhile or not.
    for known in (0, COUNT):
        again = reopened(tmp_path, was_clean=False, recovery_point=known, gapless_from=COUNT)
        assert again.log_end_offset == COUNT
    assert again.append_as_leader(batch(b"12" * 45), 9, NOW_MS).first_offset == COUNT
    again.close()
    caplog.clear()
    after = reopened(tmp_path, recovery_point=COUNT + 1)
    assert served(after) == [*range(8 + left), COUNT]
    assert not caplog.records


def test_a_last_segment_that_is_missing_leaves_its_offsets_to_no_other(tmp_path: Path) -> None:
    stopped(tmp_path)
    for suffix in (".log", ".index", ".timeindex"):
        data_of(tmp_path, 8).with_suffix(suffix).unlink()

    log = reopened(tmp_path)

    assert (log.log_end_offset, served(log)) == (COUNT, list(range(8)))


def test_a_recovery_point_alone_moves_no_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stopped(tmp_path)

    log = reopened(tmp_path, recovery_point=1_000_000)

    assert (log.log_end_offset, served(log)) == (COUNT, all_but())
    assert "records may be lost" in caplog.text


def test_a_last_batch_that_was_moved_is_seen_where_the_index_leads_to_it(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=1)
    for offset in (0, 10, 11):  # with a gap, as a cleaner leaves it
        log.append_as_follower(batch(b"v" * 90, base_offset=offset))
    log.close()
    data = data_of(tmp_path, 0)
    content = bytearray(data.read_bytes())
    content[2 * len(content) // 3 + 5] ^= 1  # its offset is 65,547 now
    data.write_bytes(content)

    assert open_log(tmp_path, recovery_point=12).log_end_offset == 12


def test_a_recovery_point_in_front_of_a_damaged_segment_hides_no_batch_of_it(
    tmp_path: Path,
) -> None:
    stopped(tmp_path)
    path = data_of(tmp_path, BASES[-1])
    path.write_bytes(path.read_bytes()[:-5])

    log = reopened(tmp_path, recovery_point=BASES[-1])

    assert (log.log_end_offset, served(log)) == (COUNT - 1, list(range(COUNT - 1)))


def test_a_moved_last_batch_behind_a_damaged_one_does_not_move_the_end_that_was_noted_twice(
    tmp_path: Path,
) -> None:
    stopped(tmp_path)
    damage(tmp_path, COUNT - 2)
    path = data_of(tmp_path, BASES[-1])
    content = bytearray(path.read_bytes())
    content[-BATCH_BYTES + 6] ^= 2  # its offset is 523 now
    path.write_bytes(content)

    log = reopened(tmp_path)

    assert (log.log_end_offset, served(log)) == (COUNT, all_but(COUNT - 2, COUNT - 1))


def test_damage_at_the_begin_of_a_segment_is_not_passed_over_from_the_one_before(
    tmp_path: Path,
) -> None:
    stopped(tmp_path)
    damage(tmp_path, 4)
    path = data_of(tmp_path, 0)
    path.write_bytes(path.read_bytes()[:-BATCH_BYTES])  # offset 3 is gone, as if it was cleaned

    log = reopened(tmp_path)

    with pytest.raises(DamagedBatchError):
        log.read(3, 1, FetchIsolation.LOG_END, min_one_message=True)


@pytest.mark.parametrize("recovery_point", [0, COUNT])
@pytest.mark.parametrize("batches_left", [0, 2])
def test_a_file_cut_between_batches_is_a_gap_although_the_cleaner_was_there(
    tmp_path: Path, recovery_point: int, batches_left: int
) -> None:
    stopped(tmp_path)
    path = data_of(tmp_path, 4)
    path.write_bytes(path.read_bytes()[: batches_left * BATCH_BYTES])

    log = reopened(tmp_path, recovery_point=recovery_point, was_clean=recovery_point > 0)
    log.offsets.cleaned_to(COUNT)
    gaps = [
        (found.offset, found.next_offset)
        for found in LogReplay(log)
        if isinstance(found, ReplayGap)
    ]

    assert gaps == [(4 + batches_left, 8)]


def test_what_the_cleaner_took_is_no_gap(tmp_path: Path) -> None:
    log = open_log(tmp_path, **SETTINGS)
    for offset in (0, 1, 5, 9, 10, 11):
        log.append_as_follower(batch(b"%02d" % offset * 45, base_offset=offset))
    log.close()

    log = reopened(tmp_path)
    log.offsets.cleaned_to(COUNT)

    assert not any(isinstance(found, ReplayGap) for found in LogReplay(log))


def test_leader_epochs_that_a_power_loss_took_are_found_although_the_last_segment_is_empty(
    tmp_path: Path,
) -> None:
    stopped(tmp_path)
    log = reopened(tmp_path)
    entries = log.leader_epoch_cache.entries
    log.roll(NOW_MS)
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")

    assert reopened(tmp_path).leader_epoch_cache.entries == entries
