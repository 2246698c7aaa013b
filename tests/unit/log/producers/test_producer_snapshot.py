"""Producer snapshot files: Kafka's bytes, and files that cannot be trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.log.producers.producer_snapshot import (
    ProducerSnapshots,
    SnapshotError,
    decode_snapshot,
    encode_rows,
    encode_snapshot,
)
from kbroker.log.producers.producer_state import BatchMetadata, ProducerStateEntry

# Written by Apache Kafka 3.9.2: producer 3 with a transaction open from offset 0 on.
OPEN_TRANSACTION = bytes.fromhex(
    "0001805a7492000000010000000000000003000000000007000000000000000700000007"
    "0000018bcfe56807ffffffff0000000000000000"
)


def encoded(entries: list[ProducerStateEntry]) -> bytes:
    return encode_snapshot(len(entries), [encode_rows(entries)])


def test_no_producers_make_ten_bytes() -> None:
    assert len(encoded([])) == 10
    assert decode_snapshot(encoded([])) == []


def test_a_snapshot_of_kafka_is_read_and_written_again_byte_for_byte() -> None:
    entries = decode_snapshot(OPEN_TRANSACTION)

    entry = entries[0]
    assert (entry.producer_id, entry.producer_epoch, entry.coordinator_epoch) == (3, 0, -1)
    assert entry.batches == [BatchMetadata(0, 7, 0, 7, 1_700_000_000_007)]
    assert entry.current_txn_first_offset == 0
    assert encoded(entries) == OPEN_TRANSACTION


def test_a_producer_known_by_a_marker_alone_round_trips() -> None:
    entry = ProducerStateEntry(9, 4)
    entry.coordinator_epoch = 2
    entry.last_timestamp = 77

    again = decode_snapshot(encoded([entry]))[0]

    assert (again.producer_epoch, again.coordinator_epoch, again.last_timestamp) == (4, 2, 77)
    assert (again.batches, again.last_sequence, again.current_txn_first_offset) == ([], -1, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        OPEN_TRANSACTION[:9],
        OPEN_TRANSACTION[:-1],
        OPEN_TRANSACTION[:-1] + b"\x01",
        b"\x00\x02" + OPEN_TRANSACTION[2:],
        OPEN_TRANSACTION + b"\0",
    ],
    ids=["empty", "header cut", "entry cut", "flipped", "version 2", "too long"],
)
def test_a_snapshot_that_cannot_be_trusted_is_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        decode_snapshot(data)


def test_the_newest_sound_snapshot_within_bounds_is_used(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(RealFileSystem(), str(tmp_path))
    for offset in (5, 10, 20, 30):
        snapshots.write(offset, [ProducerStateEntry(offset, 0)])
    (tmp_path / "00000000000000000020.snapshot").write_bytes(b"broken")

    found = snapshots.read_latest(snapshots.offsets(), 6, 29)

    assert found is not None
    assert (found[0], found[1][0].producer_id) == (10, 10)
    assert snapshots.offsets() == [5, 10, 30]


def test_snapshots_outside_bounds_are_deleted(tmp_path: Path) -> None:
    snapshots = ProducerSnapshots(RealFileSystem(), str(tmp_path))
    for offset in (5, 10, 20):
        snapshots.write(offset, [])

    snapshots.delete_outside(6, 10)

    assert snapshots.offsets() == [10]
