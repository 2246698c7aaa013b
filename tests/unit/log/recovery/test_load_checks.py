"""Small files of a cleanly stopped log, held against its batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.record.record_batch import (
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log
from tests.fakes.logs.verified_batches import verified

FIRST = "00000000000000000000"


def write_transaction(log: Log, producer_id: int, sequence: int, *, is_commit: bool) -> None:
    options = BatchOptions(producer_id=producer_id, producer_epoch=0)
    for number in range(2):
        data = batch(
            b"x",
            flags=TRANSACTIONAL_BIT,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence + number,
        )
        log.append_as_leader(verified(log, data), 0, NOW_MS)
    marker = bytearray(build_marker(ControlRecord(is_commit, 0), NOW_MS, options=options))
    log.append_as_leader(marker, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


def with_transactions(directory: Path) -> list[tuple[int, ...]]:
    log = open_log(directory)
    write_transaction(log, 7, 0, is_commit=True)
    write_transaction(log, 7, 2, is_commit=False)
    write_transaction(log, 7, 4, is_commit=False)
    entries = list(log.segments.active.transaction_index.entries)
    log.close()
    assert [entry[1:3] for entry in entries] == [(3, 5), (6, 8)]
    return [tuple(entry) for entry in entries]


def test_every_flipped_bit_of_a_transaction_index_is_undone_or_without_effect(
    tmp_path: Path,
) -> None:
    entries = with_transactions(tmp_path)
    path = tmp_path / f"{FIRST}.txnindex"
    whole = path.read_bytes()
    believed = []

    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        log = open_log(tmp_path, recovery_point=9)
        found = [tuple(entry) for entry in log.segments.active.transaction_index.entries]
        if [entry[:3] for entry in found] != [entry[:3] for entry in entries]:
            believed.append(bit)
        log.files.close_files()

    assert believed == []


def test_damage_in_a_transaction_does_not_forget_that_it_was_aborted(tmp_path: Path) -> None:
    entries = with_transactions(tmp_path)
    log = open_log(tmp_path, recovery_point=9)
    found = log.segments.active.translate_offset(3)
    log.files.close_files()
    assert found is not None
    data = bytearray((tmp_path / f"{FIRST}.log").read_bytes())
    data[found[0] + HEADER_SIZE] ^= 1
    (tmp_path / f"{FIRST}.log").write_bytes(data)

    log = open_log(tmp_path, recovery_point=9)

    kept = log.segments.active.transaction_index.entries
    assert [tuple(entry) for entry in kept] == entries
    assert log.log_end_offset == 9


@pytest.mark.parametrize("byte", [0, 5, 7, 8, 10, 11, 16, 23, 25, 60])
def test_the_end_is_where_the_recovery_point_says_when_the_last_batch_is_damaged(
    tmp_path: Path, byte: int
) -> None:
    log = open_log(tmp_path)
    for number in range(4):
        log.append_as_leader(batch(b"%d" % number, b"x"), 0, NOW_MS)
    position = log.segments.active.size_bytes * 3 // 4
    log.close()
    path = tmp_path / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    data[position + byte] ^= 2
    path.write_bytes(data)

    log = open_log(tmp_path, recovery_point=8)

    assert log.log_end_offset == 8
    assert log.append_as_leader(batch(b"y"), 0, NOW_MS).first_offset == 8


@pytest.mark.parametrize("noted", [0, 3, 7, 9, 4_000_000])
def test_a_wrong_recovery_point_moves_no_end(tmp_path: Path, noted: int) -> None:
    log = open_log(tmp_path)
    for _ in range(8):
        log.append_as_leader(batch(b"x"), 0, NOW_MS)
    log.close()

    assert open_log(tmp_path, recovery_point=noted).log_end_offset == 8


@pytest.mark.parametrize("text", ["0\n1\n6 0\n", "0\n2\n3 0\n1 4\n", "0\n1\n-2 0\n", "0\n1\n2 9\n"])
def test_leader_epochs_that_no_batch_has_are_read_from_the_batches(
    tmp_path: Path, text: str
) -> None:
    log = open_log(tmp_path)
    for epoch in (2, 2, 4):
        log.append_as_leader(batch(b"x"), epoch, NOW_MS)
    log.close()
    (tmp_path / "leader-epoch-checkpoint").write_text(text)

    log = open_log(tmp_path, recovery_point=3)

    assert log.leader_epoch_cache.entries == [(2, 0), (4, 2)]
