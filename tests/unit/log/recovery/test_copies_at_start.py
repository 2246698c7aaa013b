"""What a start does with copies of logs in other directories, and with logs that were replaced."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from tests.fakes.brokers.moving_broker import A, B, MovingBroker, values_of
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.logs.log_maker import PARTITION, batch

U = "0123456789abcdef" * 2
Rename = Callable[[str, str], None]


async def left(values: int = 3, *, partition: TopicPartition = PARTITION) -> PowerDisk:
    """The disk of a broker that was stopped: a log in A, one with fewer records in B."""
    broker = MovingBroker()
    for number, path in enumerate((A, B)):
        await broker.alter(path, TopicPartition("t", number))
        log = broker.lead(TopicPartition("t", number)).log
        for value in range(values - number):
            log.append_as_leader(batch(b"%d" % value), 0, 1)
    await broker.stop()
    broker.disk.let_go()
    return broker.disk


def opened(disk: PowerDisk) -> LogManager:
    return MovingBroker(disk).logs


async def test_a_copy_that_apache_kafka_left_goes_on() -> None:
    disk = await left()
    disk.rename(f"{B}/t-1", f"{B}/t-0.{U}-future")

    broker = MovingBroker(disk)
    (future,) = broker.logs.all_futures()
    assert (future.log_end_offset, future.directory) == (2, f"{B}/t-0.{U}-future")
    partition = broker.lead()
    await broker.settle()

    assert partition.log.directory == f"{B}/t-0"
    assert values_of(partition.log) == [b"0", b"1", b"2"]
    await broker.stop()


async def test_a_copy_of_another_topic_of_the_name_goes() -> None:
    disk = await left()
    disk.rename(f"{B}/t-1", f"{B}/t-0.{U}-future")
    disk.write_bytes(
        f"{B}/t-0.{U}-future/partition.metadata",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAPg",
    )
    logs = opened(disk)

    assert logs.all_futures() == []
    assert logs.get_log(PARTITION).topic_id != UUID(int=62)  # type: ignore[union-attr]
    logs.cleanup(0)
    logs.cleanup(10**13)
    assert not disk.exists(f"{B}/t-0.{U}-future")
    logs.shutdown()


async def test_a_copy_beside_its_log_goes_and_leaves_what_is_noted_of_the_log() -> None:
    broker = MovingBroker()
    partition = broker.lead()
    broker.append(partition, b"0", b"1", b"2")
    partition.log.flush(and_closed=True)
    broker.logs.checkpoints.write_log_starts({PARTITION: 2}, lambda _: None)
    partition.log.maybe_increment_log_start_offset(2)
    disk = broker.disk
    disk.make_directory(f"{A}/t-0.{U}-future")
    disk.open(f"{A}/t-0.{U}-future/{0:020}.log", create=True).close()

    for _ in range(2):
        disk.let_go()  # killed
        logs = opened(disk)
        log = logs.get_log(PARTITION)

        assert logs.all_futures() == []
        assert log is not None
        assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    logs.cleanup(0)
    logs.cleanup(10**13)
    assert not disk.exists(f"{A}/t-0.{U}-future")
    logs.shutdown()


async def test_a_copy_without_its_log_is_left_alone() -> None:
    disk = await left()
    disk.rename(f"{B}/t-1", f"{B}/t-7.{U}-future")
    logs = opened(disk)

    assert logs.all_futures() == []
    assert disk.exists(f"{B}/t-7.{U}-future")
    logs.shutdown()


async def test_a_copy_whose_log_is_replaced_takes_its_place() -> None:
    disk = await left()
    disk.rename(f"{A}/t-0", f"{A}/t-0.{U}-replaced")
    disk.rename(f"{B}/t-1", f"{B}/t-0.{U}-future")
    logs = opened(disk)

    assert logs.get_log(PARTITION).directory == f"{B}/t-0"  # type: ignore[union-attr]
    assert [n.rpartition("-")[2] for n in disk.list(A) if "t-0" in n] == ["delete"]
    logs.shutdown()


async def test_a_replaced_log_goes_where_the_copy_has_its_name() -> None:
    disk = await left()
    disk.rename(f"{A}/t-0", f"{A}/t-0.{U}-replaced")
    disk.rename(f"{B}/t-1", f"{B}/t-0")
    logs = opened(disk)

    assert logs.get_log(PARTITION).directory == f"{B}/t-0"  # type: ignore[union-attr]
    assert [n.rpartition("-")[2] for n in disk.list(A) if "t-0" in n] == ["delete"]
    logs.shutdown()


async def test_a_replaced_log_without_a_copy_gets_its_name_back() -> None:
    disk = await left()
    disk.rename(f"{A}/t-0", f"{A}/t-0.{U}-replaced")
    logs = opened(disk)

    assert logs.get_log(PARTITION).log_end_offset == 3  # type: ignore[union-attr]
    assert logs.get_log(PARTITION).directory == f"{A}/t-0"  # type: ignore[union-attr]
    logs.shutdown()


@pytest.mark.parametrize("name", ["future", "replaced"])
async def test_while_a_directory_is_offline_a_replaced_log_waits(name: str) -> None:
    disk = await left()
    disk.rename(f"{A}/t-0", f"{A}/t-0.{U}-replaced")
    if name == "future":
        disk.rename(f"{B}/t-1", f"{B}/t-0.{U}-future")
    disk.failed.add(B)
    logs = opened(disk)

    assert logs.online_directories == [A]
    assert logs.get_log(PARTITION) is None
    assert disk.exists(f"{A}/t-0.{U}-replaced")
    logs.release()
