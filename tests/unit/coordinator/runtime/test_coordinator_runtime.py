"""Replay from a real log, held answers and timers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kbroker.coordinator.runtime.batch_append import BatchAppend
from kbroker.coordinator.runtime.coordinator_runtime import CoordinatorRuntime
from kbroker.coordinator.runtime.partition_replay import PartitionReplay
from kbroker.coordinator.runtime.pending_reply import PendingReply
from kbroker.log.partition.log import Log
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from tests.fakes.brokers.group_broker import OffsetsReplicas
from tests.fakes.logs.log_maker import NOW_MS, open_log
from tests.fakes.logs.verified_batches import verified
from tests.fakes.running.virtual_time import VirtualTime

PARTITION = TopicPartition("__consumer_offsets", 0)


class Collected:
    def __init__(self) -> None:
        self.records: list[tuple[bytes | None, bytes | None, int, int | None]] = []
        self.markers: list[tuple[int, bool]] = []

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, producer_id: int | None
    ) -> None:
        self.records.append((key, value, batch_offset, producer_id))

    def marker(self, producer_id: int, is_commit: bool) -> None:
        self.markers.append((producer_id, is_commit))

    def open_producers(self) -> list[int]:
        return []


def loaded(log: Log) -> Collected:
    collected = Collected()
    for _ in PartitionReplay(PARTITION, log, collected).steps():
        pass
    return collected


def test_transactional_batches_and_markers_are_told_apart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    options = BatchOptions(
        flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0
    )
    batch = build([Record(0, NOW_MS, b"k", b"v")], options=options)
    marker = build_marker(ControlRecord(True, 0), NOW_MS, options=options)
    for each in (batch, marker):
        data = verified(log, bytearray(each))
        log.append_as_leader(data, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)

    collected = loaded(log)

    assert collected.records == [(b"k", b"v", 0, 7)]
    assert collected.markers == [(7, True)]


async def test_first_answer_counts_whether_or_not_somebody_waits() -> None:
    early: PendingReply[int] = PendingReply()
    early.answer(1)
    early.answer(2)
    assert early.outcome() == 1

    late: PendingReply[int] = PendingReply()
    outcome = late.outcome()
    late.answer(3)
    assert await outcome == 3  # type: ignore[misc]


async def test_answer_for_somebody_who_has_gone_is_dropped() -> None:
    reply: PendingReply[int] = PendingReply()
    waiting = reply.outcome()
    waiting.cancel()  # type: ignore[union-attr]

    reply.answer(1)

    assert waiting.cancelled()  # type: ignore[union-attr]


def test_timer_of_the_same_key_replaces_the_earlier_one() -> None:
    time = VirtualTime()
    append = BatchAppend(OffsetsReplicas(), time, required_acks=-1, timeout_ms=5000)
    runtime: CoordinatorRuntime[Any] = CoordinatorRuntime("t", append, time, time, lambda: 1)
    fired: list[str] = []

    runtime.set_timer("k", 10, lambda: fired.append("first"))
    runtime.set_timer("k", 20, lambda: fired.append("second"))
    runtime.set_timer("other", 15, lambda: fired.append("other"))
    runtime.cancel_timer("other")
    time.advance(30)

    assert fired == ["second"]
    assert time.armed() == 0
