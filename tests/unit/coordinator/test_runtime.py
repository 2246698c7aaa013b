"""Replay from a real log, held answers and timers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from kbroker.coordinator.partition_replay import PartitionReplay
from kbroker.coordinator.runtime import CoordinatorRuntime, PendingReply
from kbroker.effects import KeyValue
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.append.log_append_info import AppendOrigin
from kbroker.log.log import Log
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)
from kbroker.replication.produce_result import PartitionProduceResult
from tests.fakes.log_maker import NOW_MS, open_log
from tests.fakes.virtual_time import VirtualTime

PARTITION = TopicPartition("__consumer_offsets", 0)


class OneLog:
    """The replica manager of a broker that leads one partition, alone."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def append_records(
        self,
        entries: Sequence[tuple[TopicPartition, memoryview | bytearray]],
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
    ) -> list[PartitionProduceResult]:
        [(partition, records)] = entries
        info = self.log.append_as_leader(records, 0, NOW_MS, origin=origin)
        return [
            PartitionProduceResult(partition, ErrorCode.NONE, info.first_offset, info.last_offset)
        ]


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


def runtime_of(log: Log) -> CoordinatorRuntime:
    time = VirtualTime()
    return CoordinatorRuntime(OneLog(log), time, time)


def loaded(log: Log) -> Collected:
    collected = Collected()
    for _ in PartitionReplay(PARTITION, log, collected).steps():
        pass
    return collected


def test_what_was_appended_over_several_segments_is_replayed_in_order(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=200)
    runtime = runtime_of(log)
    offsets = []

    for at in range(20):
        records = [KeyValue(b"k%d" % at, b"v"), KeyValue(b"gone", None)]
        runtime.append(PARTITION, records, lambda _error, offset: offsets.append(offset))

    assert offsets == list(range(0, 40, 2))
    assert len(list(log.segments)) > 1
    assert loaded(log).records == [
        row
        for at in range(20)
        for row in ((b"k%d" % at, b"v", 2 * at, None), (b"gone", None, 2 * at, None))
    ]


def test_transactional_batches_and_markers_are_told_apart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    options = BatchOptions(
        flags=TRANSACTIONAL_BIT, producer_id=7, producer_epoch=0, base_sequence=0
    )
    batch = build([Record(0, NOW_MS, b"k", b"v")], options=options)
    marker = build_marker(ControlRecord(True, 0), NOW_MS, options=options)
    for each in (batch, marker):
        log.append_as_leader(bytearray(each), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)

    collected = loaded(log)

    assert collected.records == [(b"k", b"v", 0, 7)]
    assert collected.markers == [(7, True)]


def test_refusal_of_the_log_is_reported(tmp_path: Path) -> None:
    time = VirtualTime()
    reported = []

    class Refusing:
        def append_records(self, *_args: object) -> list[PartitionProduceResult]:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    runtime = CoordinatorRuntime(Refusing(), time, time)
    runtime.append(PARTITION, [KeyValue(b"k", b"v")], lambda *outcome: reported.append(outcome))

    assert reported == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


def test_first_answer_counts_whether_or_not_somebody_waits() -> None:
    async def scenario() -> None:
        early: PendingReply[int] = PendingReply()
        early.answer(1)
        early.answer(2)
        assert early.outcome() == 1

        late: PendingReply[int] = PendingReply()
        outcome = late.outcome()
        late.answer(3)
        assert await outcome == 3  # type: ignore[misc]

    asyncio.run(scenario())


def test_answer_for_somebody_who_has_gone_is_dropped() -> None:
    async def scenario() -> None:
        reply: PendingReply[int] = PendingReply()
        waiting = reply.outcome()
        waiting.cancel()  # type: ignore[union-attr]

        reply.answer(1)

        assert waiting.cancelled()  # type: ignore[union-attr]

    asyncio.run(scenario())


def test_timer_of_the_same_key_replaces_the_earlier_one(tmp_path: Path) -> None:
    time = VirtualTime()
    runtime = CoordinatorRuntime(OneLog(open_log(tmp_path / "log")), time, time)
    fired: list[str] = []

    runtime.set_timer("k", 10, lambda: fired.append("first"))
    runtime.set_timer("k", 20, lambda: fired.append("second"))
    runtime.set_timer("other", 15, lambda: fired.append("other"))
    runtime.cancel_timer("other")
    time.advance(30)

    assert fired == ["second"]
    assert time.armed() == 0
