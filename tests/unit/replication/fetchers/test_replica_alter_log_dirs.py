"""Replicas move between the directories of a broker; the logs are real, on a disk in memory."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator
from random import Random

import pytest

from kbroker.errors import ErrorCode
from kbroker.log.disk.checkpoint import EpochEntry
from kbroker.log.disk.file_system import StorageError
from kbroker.log.producers.producer_state import ProducerStateEntry
from kbroker.log.producers.snapshot_writing import AT_ONCE
from kbroker.model import TopicPartition
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.replication_quota import MOVING_RATE
from kbroker.turns import turns
from tests.fakes.brokers.moving_broker import (
    BROKER,
    ENOUGH,
    TOPIC_ID,
    A,
    B,
    MovingBroker,
    values_of,
)
from tests.fakes.logs.log_cleaning import clean
from tests.fakes.logs.log_maker import PARTITION, batch
from tests.fakes.running.waiting import until

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 1}
VALUES = [b"%d" % n for n in range(20)]


@pytest.fixture
async def broker() -> AsyncIterator[MovingBroker]:
    broker = MovingBroker(**SETTINGS)
    yield broker
    await broker.stop()


@pytest.fixture
async def large() -> AsyncIterator[MovingBroker]:
    """One whose log takes several slices."""
    broker = MovingBroker()
    partition = broker.lead()
    broker.append(partition, *(b"%d" % n * 100_000 for n in range(30)))
    yield broker
    await broker.stop()


async def test_a_replica_moves_with_all_it_has(broker: MovingBroker) -> None:
    partition = broker.lead()
    broker.append(partition, *VALUES)
    before = partition.log

    assert await broker.alter(B) is ErrorCode.NONE
    await broker.settle()

    log = partition.log
    assert log is broker.logs.get_log(PARTITION) is not before
    assert log.directory == f"{B}/t-0"
    assert values_of(log) == VALUES
    assert (log.high_watermark, log.topic_id) == (20, TOPIC_ID)
    assert broker.names(B) == ["t-0"]
    assert broker.names(A) == ["delete"]
    assert PARTITION in broker.woken


async def test_it_is_led_and_appended_to_while_it_moves(large: MovingBroker) -> None:
    partition = large.lead()
    large.before_turn = lambda: (
        large.append(partition, b"new") if large.logs.all_futures() else None
    )

    await large.alter(B)
    await large.settle()
    large.append(partition, b"last")

    assert partition.log.directory == f"{B}/t-0"
    values = values_of(partition.log)
    assert values[:30] == [b"%d" % n * 100_000 for n in range(30)]
    assert len(values) > 32
    assert set(values[30:-1]) == {b"new"}
    assert values[-1] == b"last"


async def test_others_run_between_two_slices(large: MovingBroker) -> None:
    sizes: list[int] = []
    large.before_turn = lambda: sizes.extend(
        sum(s.size_bytes for s in log.segments) for log in large.logs.all_futures()
    )

    await large.alter(B)
    await large.settle()

    steps = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
    assert len(sizes) >= 4
    assert max(steps) <= 256 * 1024


async def test_others_run_while_very_many_producers_are_written(broker: MovingBroker) -> None:
    partition = broker.lead()
    broker.append(partition, *VALUES)
    producers = {number: ProducerStateEntry(number) for number in range(3 * AT_ONCE)}
    for producer in producers.values():
        producer.last_timestamp = broker.time.now_ms()
    partition.log.producer_state.producers.update(producers)

    await broker.alter(B)
    await broker.settle()

    assert turns().given >= 4
    assert partition.log.directory == f"{B}/t-0"
    await broker.stop()
    broker.disk.let_go()
    again = MovingBroker(broker.disk, **SETTINGS)
    assert again.lead().log.producer_state.producers.keys() == producers.keys()
    await again.stop()


async def test_moves_keep_to_their_rate_until_it_is_taken_away(large: MovingBroker) -> None:
    rate = 300_000
    large.quotas.configure({MOVING_RATE: str(rate)}, {})
    begun_ms = large.time.monotonic_ms()
    copied: list[tuple[float, int]] = []

    def look() -> None:
        size = sum(s.size_bytes for log in large.logs.all_futures() for s in log.segments)
        copied.append((large.time.monotonic_ms() - begun_ms, size))
        if size > 2_000_000:
            large.quotas.configure({}, {})

    large.before_turn = look
    await large.alter(B)
    await large.settle()

    assert large.logs.get_log(PARTITION).directory == f"{B}/t-0"  # type: ignore[union-attr]
    held = [(ms, size) for ms, size in copied if 0 < size <= 2_000_000]
    assert max(size - rate * ms / 1000 for ms, size in held) <= rate + 256 * 1024
    free_ms = copied[-1][0] - held[-1][0]
    assert held[-1][0] >= 5_000 > free_ms, "the rest goes at once"


async def test_after_a_restart_it_is_where_it_moved_to(broker: MovingBroker) -> None:
    partition = broker.lead()
    broker.append(partition, *VALUES)
    await broker.alter(B)
    await broker.settle()
    broker.append(partition, b"after")
    await broker.stop()
    broker.disk.let_go()

    again = MovingBroker(broker.disk, **SETTINGS)

    log = again.lead().log
    assert log.directory == f"{B}/t-0"
    assert values_of(log) == [*VALUES, b"after"]
    await again.stop()


async def test_a_move_goes_on_after_a_restart(large: MovingBroker) -> None:
    await large.alter(B)
    for _ in range(6):
        await asyncio.sleep(0)
    (future,) = large.logs.all_futures()
    await large.stop()
    copied = future.log_end_offset
    assert 0 < copied < 30
    large.disk.let_go()

    again = MovingBroker(large.disk)
    (future,) = again.logs.all_futures()
    assert future.log_end_offset == copied
    partition = again.lead()
    await again.settle()

    assert partition.log.directory == f"{B}/t-0"
    assert len(values_of(partition.log)) == 30
    await again.stop()


async def test_a_cut_of_the_log_is_one_of_the_copy(large: MovingBroker) -> None:
    partition = large.lead()
    is_cut = False

    def cut() -> None:
        nonlocal is_cut
        futures = large.logs.all_futures()
        if not is_cut and futures and futures[0].log_end_offset > 6:
            is_cut = True
            partition.log.truncate_to(4)
            large.append(partition, b"other", b"records")  # of the same epoch

    large.before_turn = cut
    await large.alter(B)
    await large.settle()

    assert is_cut
    assert partition.log.directory == f"{B}/t-0"
    assert values_of(partition.log)[4:] == [b"other", b"records"]


async def test_a_copy_that_parted_while_the_broker_was_down_is_cut_by_epochs(
    large: MovingBroker,
) -> None:
    partition = large.lead()
    await large.alter(B)
    for _ in range(6):
        await asyncio.sleep(0)
    (future,) = large.logs.all_futures()
    await large.moves.shutdown()
    assert future.log_end_offset > 1
    partition.log.truncate_to(1)
    large.lead(epoch=3)
    large.append(partition, b"x", b"y", b"z")
    large.logs.shutdown()
    large.disk.let_go()

    again = MovingBroker(large.disk)
    moved = again.lead(epoch=4)
    await again.settle()

    assert moved.log.directory == f"{B}/t-0"
    assert values_of(moved.log)[1:] == [b"x", b"y", b"z"]
    assert moved.log.leader_epoch_cache.entries[1:] == [EpochEntry(3, 1), EpochEntry(4, 4)]
    await again.stop()


async def test_a_copy_that_kept_more_than_its_log_is_cut_before_the_log_gets_other_records() -> (
    None
):
    broker = MovingBroker()
    partition = broker.lead()
    broker.append(partition, b"kept")
    partition.log.flush(and_closed=True)
    broker.append(partition, *(b"%d" % n * 100_000 for n in range(30)))
    await broker.alter(B)
    for _ in range(6):
        await asyncio.sleep(0)
    (future,) = broker.logs.all_futures()
    await broker.moves.shutdown()
    future.flush(and_closed=True)
    broker.logs.checkpoint_recovery_points()
    image = broker.disk.image(Random(1), "lost")

    for value in VALUES:
        again = MovingBroker(image)
        again.quotas.configure({MOVING_RATE: "1"}, {})
        again.quotas.moving.record(ENOUGH, again.time.monotonic_ms())  # others move first
        moved = again.lead()
        assert moved.log_end_offset < future.log_end_offset or value != VALUES[0]
        again.append(moved, value)
        await again.stop()
        assert moved.log.directory == f"{A}/t-0"
        image.let_go()
    last = MovingBroker(image)
    moved = last.lead()
    await last.settle()

    assert moved.log.directory == f"{B}/t-0"
    assert values_of(moved.log) == [b"kept", *VALUES]
    await last.stop()


async def test_a_copy_whose_log_was_compacted_meanwhile_begins_anew() -> None:
    settings = {"cleanup_policy": ("compact",), "delete_retention_ms": 0}
    broker = MovingBroker(**settings)
    partition = broker.lead()
    broker.append(partition, b"deleted", key=b"k")
    broker.append(partition, *(bytes(200_000) for _ in range(3)), key=b"large")
    broker.append(partition, None, key=b"k")
    await broker.alter(B)
    await asyncio.sleep(0)
    (future,) = broker.logs.all_futures()
    assert 0 < future.log_end_offset < 4
    await broker.moves.shutdown()
    future.roll(0)
    future.flush(and_closed=True)
    broker.logs.checkpoint_recovery_points()

    broker.logs.fail_directory(B, StorageError(B, "fsync", 5))
    for _ in range(3):
        partition.log.roll(0)
        clean(partition.log, broker.time.now_ms(), file_system=broker.disk)
        broker.append(partition, b"later", key=b"l")
    left = values_of(partition.log)
    assert left == [bytes(200_000), b"later", b"later"]
    broker.logs.shutdown()
    broker.disk.let_go()
    again = MovingBroker(broker.disk, **settings)
    moved = again.lead()
    await again.settle()

    assert moved.log.directory == f"{B}/t-0"
    assert values_of(moved.log) == left
    await again.stop()


async def test_a_topic_that_gets_its_id_while_it_moves_keeps_it(broker: MovingBroker) -> None:
    log = broker.logs.get_or_create_log(PARTITION)
    log.append_as_leader(batch(b"a"), 0, 0)
    broker.hosted.add(Partition(PARTITION, log, BROKER))
    await broker.alter(B)
    partition = broker.lead()
    log.assign_topic_id(TOPIC_ID)

    await broker.settle()

    assert partition.log is not log
    assert partition.topic_id == TOPIC_ID


async def test_a_log_start_inside_a_batch_stays(broker: MovingBroker) -> None:
    partition = broker.lead()
    for _ in range(6):
        partition.append_records_to_leader(batch(b"a", b"b", b"c"), -1, 1, 0)  # type: ignore[arg-type]
    partition.log.maybe_increment_log_start_offset(10)

    await broker.alter(B)
    await broker.settle()

    assert partition.log.directory == f"{B}/t-0"
    assert (partition.log_start_offset, partition.log_end_offset) == (10, 18)
    broker.disk.let_go()
    again = MovingBroker(broker.disk.image(Random(1), "lost"), **SETTINGS)
    assert again.lead().log_start_offset == 10
    await again.stop()


async def test_producers_whose_records_are_gone_are_still_known(broker: MovingBroker) -> None:
    partition = broker.lead()
    broker.append(partition, b"a", producer_id=5, producer_epoch=0, base_sequence=0)
    broker.append(partition, b"b")
    partition.log.maybe_increment_log_start_offset(1)

    await broker.alter(B)
    await broker.settle()

    assert partition.log.directory == f"{B}/t-0"
    assert partition.log.producer_state.producers[5].last_sequence == 0
    await broker.stop()
    broker.disk.let_go()
    again = MovingBroker(broker.disk, **SETTINGS)
    assert again.lead().log.producer_state.producers[5].last_sequence == 0
    await again.stop()


async def test_a_deleted_partition_takes_its_copy_along(large: MovingBroker) -> None:
    await large.alter(B)
    await asyncio.sleep(0)

    large.hosted.remove(PARTITION)
    large.logs.delete_log(PARTITION)
    for _ in range(20):
        await asyncio.sleep(0)

    assert (large.names(A), large.names(B)) == (["delete"], ["delete"])
    assert large.logs.all_futures() == []


async def test_a_move_back_gives_the_copy_up(large: MovingBroker) -> None:
    await large.alter(B)
    await asyncio.sleep(0)
    assert large.names(B) == ["future"]

    assert await large.alter(A) is ErrorCode.NONE

    assert (large.names(A), large.names(B)) == (["t-0"], ["delete"])
    assert large.logs.all_futures() == []


async def test_the_same_move_twice_is_one(large: MovingBroker) -> None:
    await large.alter(B)
    await asyncio.sleep(0)
    (future,) = large.logs.all_futures()

    assert await large.alter(B) is ErrorCode.NONE
    assert large.logs.all_futures() == [future]


async def test_there_and_back_again(broker: MovingBroker) -> None:
    partition = broker.lead()
    broker.append(partition, *VALUES)
    for path in (B, A, B, A):
        await broker.alter(path)
        await broker.settle()
        broker.append(partition, path.encode())
        assert partition.log.directory == f"{path}/t-0"

    assert values_of(partition.log) == [*VALUES, b"/b", b"/a", b"/b", b"/a"]


async def test_a_failed_target_drops_the_copy(large: MovingBroker) -> None:
    partition = large.lead()
    await large.alter(B)
    await asyncio.sleep(0)
    large.disk.failed.add(B)
    await large.settle()

    assert large.logs.all_futures() == []
    assert large.offline == []
    large.append(partition, b"on")
    assert large.logs.online_directories == [A]
    assert await large.alter(B) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_failed_source_takes_the_partition_offline_and_leaves_the_copy(
    large: MovingBroker,
) -> None:
    partition = large.lead()
    await large.alter(B)
    await asyncio.sleep(0)
    large.disk.failed.add(A)
    partition.log.partition_directory.failed(
        StorageError(partition.log.directory, "write", errno.EIO)
    )
    for _ in range(20):
        await asyncio.sleep(0)

    assert large.offline == [PARTITION]
    assert large.names(B) == ["future"]
    assert await large.alter(B) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_full_target_lets_the_move_wait(large: MovingBroker) -> None:
    partition = large.lead()
    large.disk.is_full = False
    await large.alter(B)
    large.disk.is_full = True
    for _ in range(20):
        await asyncio.sleep(0)
    assert partition.log.directory == f"{A}/t-0"

    large.disk.is_full = False
    await large.settle()

    assert partition.log.directory == f"{B}/t-0"
    assert len(values_of(partition.log)) == 30


async def test_a_log_keeps_its_name_where_no_descriptor_is_left_to_take_it_away(
    broker: MovingBroker,
) -> None:
    partition = broker.lead()
    broker.append(partition, *VALUES)
    refused = 0

    def refuse(operation: str, path: str) -> None:
        nonlocal refused
        if (operation, path) == ("fsync", A) and refused < 2:
            refused += 1
            raise StorageError(path, operation, errno.EMFILE)

    broker.disk.before_change = refuse
    await broker.alter(B)
    await until(lambda: refused == 2)
    broker.append(partition, b"flushed")
    partition.log.flush()
    lost = MovingBroker(broker.disk.image(Random(1), "lost"), **SETTINGS)
    await broker.settle()

    assert broker.offline == []
    assert values_of(lost.lead().log) == [*VALUES, b"flushed"]
    assert partition.log.directory == f"{B}/t-0"
    await lost.stop()


async def test_an_append_that_waits_goes_on_in_the_copy(broker: MovingBroker) -> None:
    partition = broker.lead()
    broker.append(partition, b"a")
    before, cuts = partition.log, partition.log.offsets.cuts
    await broker.alter(B)
    await broker.settle()

    assert before.is_continued_in(partition.log, cuts)
    partition.log.truncate_to(0)
    assert not before.is_continued_in(partition.log, cuts)


async def test_a_partition_that_is_not_there_yet_is_made_where_it_is_wanted(
    broker: MovingBroker,
) -> None:
    for number in range(4):
        partition = TopicPartition("t", number)
        assert await broker.alter(B, partition) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert broker.lead(partition).log.directory == f"{B}/t-{number}"


@pytest.mark.parametrize(
    ("path", "partition", "code"),
    [
        ("/missing", PARTITION, ErrorCode.LOG_DIR_NOT_FOUND),
        (f"{B}/", PARTITION, ErrorCode.LOG_DIR_NOT_FOUND),
        (B, TopicPartition("t" * 230, 0), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (B, TopicPartition("u", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (A, PARTITION, ErrorCode.NONE),
    ],
)
async def test_refusals(
    broker: MovingBroker, path: str, partition: TopicPartition, code: ErrorCode
) -> None:
    broker.lead()

    assert await broker.alter(path, partition) is code
    assert broker.logs.all_futures() == []


async def test_a_log_that_moves_is_not_cleaned(large: MovingBroker) -> None:
    partition = large.lead()
    await large.alter(B)
    await asyncio.sleep(0)
    assert partition.log.offsets.copied_up_to is not None

    await large.settle()

    assert partition.log.offsets.copied_up_to is None
