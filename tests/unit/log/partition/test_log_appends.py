"""Appends that end in the middle: bytes, end offset and producer state come together or not at all,
whatever fails and wherever.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.disk.file_system import StorageError
from kbroker.log.partition import log_appends
from kbroker.log.partition.leader_epoch_cache import LeaderEpochCache
from kbroker.log.partition.log import Log
from kbroker.log.partition.segment_store import SegmentStore
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.log.producers.producer_state import ProducerStateManager
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.log.segments.log_segment import LogSegment
from kbroker.log.segments.offset_index import OffsetIndex
from kbroker.log.segments.time_index import TimeIndex
from kbroker.log.segments.transaction_index import TransactionIndex
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build_marker,
)
from tests.fakes.logs.log_maker import NOW_MS, batch, open_log, read_values
from tests.fakes.logs.verified_batches import verified

STEPS = [
    (LeaderEpochCache, "assign"),
    (log_appends, "should_roll"),
    (SegmentStore, "roll"),
    (LogSegment, "append"),
    (OffsetIndex, "append"),
    (TimeIndex, "maybe_append"),
    (ProducerStateManager, "update"),
]


class Injected(Exception):  # noqa: N818
    """Nobody expects it."""


class FailsOnce:
    """Fails at its first call, which does its work first where that `is_done`; then all is well."""

    def __init__(self, original: Any, error: Exception, *, is_done: bool = False) -> None:
        self._original = original
        self._error: Exception | None = error
        self._is_done = is_done

    def __get__(self, owner: Any, _: type) -> Callable[..., Any]:
        return lambda *args, **values: self(owner, *args, **values)

    def __call__(self, *args: Any, **values: Any) -> Any:
        error, self._error = self._error, None
        result = None
        if error is None or self._is_done:
            result = self._original(*args, **values)
        if error is not None:
            raise error
        return result


def send(log: Log, sequence: int, epoch: int = 0) -> int:
    data = batch(b"%d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return log.append_as_leader(data, epoch, NOW_MS + sequence).first_offset


def stored(log: Log) -> list[bytes | None]:
    values: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = read_values(log.read(offset, 1 << 20, FetchIsolation.LOG_END).records.read())
        values += found
        offset += len(found)
    return values


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=[step for _, step in STEPS])
def test_no_offset_is_given_twice_whatever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, step: str, is_done: bool
) -> None:
    log = open_log(tmp_path, index_interval_bytes=1, segment_bytes=400)
    for sequence in range(4):
        send(log, sequence)

    refused = 0
    for sequence in range(4, 10):
        with monkeypatch.context() as patched:
            once = FailsOnce(getattr(owner, step), Injected(), is_done=is_done)
            patched.setattr(owner, step, once)
            try:
                send(log, sequence, epoch=sequence)
            except Injected:
                refused += 1
                assert log.log_end_offset == sequence
                patched.undo()
                assert send(log, sequence, epoch=sequence) == sequence

    assert refused
    assert stored(log) == [b"%d" % n for n in range(10)]
    assert send(log, 9) == 9  # the producer's last batch again
    assert (log.failure, log.log_end_offset) == (None, 10)
    log.close()
    assert stored(open_log(tmp_path, was_clean=False)) == [b"%d" % n for n in range(10)]


@pytest.mark.parametrize("error", [Injected(), StorageError("index", "write", 5)], ids=str)
def test_a_marker_whose_transaction_cannot_be_noted_is_no_part_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    log = open_log(tmp_path)
    options = BatchOptions(producer_id=7, producer_epoch=0)
    data = batch(b"a", flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(verified(log, data), 0, NOW_MS)
    log.update_high_watermark(1)
    marker = bytearray(build_marker(ControlRecord(False, 0), NOW_MS, options=options))

    with monkeypatch.context() as patched:
        patched.setattr(TransactionIndex, "append", FailsOnce(TransactionIndex.append, error))
        with pytest.raises((Injected, KafkaError)):
            log.append_as_leader(marker, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)

    assert log.log_end_offset == 1
    assert log.last_stable_offset == 0


def test_what_a_leader_sent_is_taken_back_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, index_interval_bytes=1)
    log.append_as_follower(bytes(batch(b"a", base_offset=0, partition_leader_epoch=0)))
    log.append_as_follower(bytes(batch(b"b", base_offset=1, partition_leader_epoch=0)))

    with monkeypatch.context() as patched:
        patched.setattr(OffsetIndex, "append", FailsOnce(OffsetIndex.append, Injected()))
        with pytest.raises(Injected):
            log.append_as_follower(bytes(batch(b"x", base_offset=2, partition_leader_epoch=1)))
    log.append_as_follower(bytes(batch(b"c", base_offset=2, partition_leader_epoch=2)))

    assert stored(log) == [b"a", b"b", b"c"]
    assert log.leader_epoch_cache.entries == [(0, 0), (2, 2)]


def test_where_nothing_can_be_taken_back_the_log_takes_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path, index_interval_bytes=1)
    for sequence in range(3):
        send(log, sequence)

    with monkeypatch.context() as patched:
        patched.setattr(OffsetIndex, "append", FailsOnce(OffsetIndex.append, Injected()))
        patched.setattr(SegmentStore, "truncate_to", FailsOnce(None, Injected()))
        with pytest.raises(Injected):
            send(log, 3)

    with pytest.raises(KafkaError) as refused:
        send(log, 3)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
