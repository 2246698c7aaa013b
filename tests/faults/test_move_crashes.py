"""A replica moves to another disk, and power goes between any two changes of the disks: what was
on a disk before is there after the next start, once, and the move comes to its end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from random import Random

import pytest

from kbroker.log.disk.file_system import StorageError
from tests.fakes.brokers import moving_broker
from tests.fakes.brokers.moving_broker import A, B, MovingBroker, values_of
from tests.fakes.disks.power_disk import PowerDisk
from tests.fakes.disks.recording_file_system import MODES
from tests.fakes.logs.log_maker import PARTITION

SETTINGS = {"segment_bytes": 400, "index_interval_bytes": 1}
VALUES = [b"%d" % n for n in range(12)]
LATER = [b"later %d" % n for n in range(4)]
START = 3
IMAGES_PER_CHANGE = 3


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class LostError(Exception):
    """What an image lacks."""


async def moved(take: Callable[[PowerDisk, list[bytes]], None]) -> MovingBroker:
    """Move a log there and back, with records between; `take` sees the disk before each change,
    and what was promised by then.
    """
    broker = MovingBroker(**SETTINGS)
    promised: list[bytes] = []
    partition = broker.lead()

    def append(*values: bytes) -> None:
        broker.append(partition, *values)
        partition.log.flush(and_closed=True)
        promised.extend(values)

    append(*VALUES)
    broker.logs.checkpoints.write_log_starts({PARTITION: START}, lambda _: None)
    partition.log.maybe_increment_log_start_offset(START)
    broker.logs.checkpoint_recovery_points()
    broker.disk.before_change = lambda _operation, _path: take(broker.disk, list(promised))
    for path, value in ((B, LATER[0]), (A, LATER[1])):
        await broker.alter(path)
        await broker.settle()
        assert partition.log.directory == f"{path}/t-0"
        append(value)
        broker.logs.checkpoint_recovery_points()
        broker.logs.checkpoint_log_start_offsets()
        broker.logs.look_after_directories()
        broker.time.advance(120_000)
        broker.logs.cleanup(broker.time.now_ms())
    return broker


class Taken:
    """Images with what was promised by then and how each was made; of equal ones, one."""

    def __init__(self) -> None:
        self.images: list[tuple[PowerDisk, list[bytes], str]] = []
        self._seen: set[object] = set()

    def add(self, image: PowerDisk, promised: list[bytes], which: str) -> None:
        found = image.content(), tuple(promised)
        if found not in self._seen:
            self._seen.add(found)
            self.images.append((image, promised, which))


async def images(each: int, seed: int) -> list[tuple[PowerDisk, list[bytes], str]]:
    random = Random(seed)
    taken = Taken()

    def take(disk: PowerDisk, promised: list[bytes]) -> None:
        for _ in range(each):
            image = disk.image(random, random.choice(MODES))
            taken.add(image, promised, f"{image.made_as} after change {disk.sequence}")

    broker = await moved(take)
    broker.disk.before_change = None
    await broker.stop()
    return taken.images


async def check(image: PowerDisk, promised: list[bytes], which: str) -> None:
    broker = MovingBroker(image, **SETTINGS)
    try:
        _expect(broker, promised, which)
        await broker.settle()
        _expect(broker, promised, f"{which}, when its move has ended")
        broker.append(broker.lead(), b"new")
        if "future" in broker.names(A) + broker.names(B) or "replaced" in (
            broker.names(A) + broker.names(B)
        ):
            raise LostError(f"{which}: {broker.names(A)} {broker.names(B)}")
    finally:
        await broker.stop()
    image.let_go()
    again = MovingBroker(image, **SETTINGS)
    _expect(again, [*promised, b"new"], f"{which}, at the second start", exact=False)
    await again.stop()


def _expect(broker: MovingBroker, promised: list[bytes], which: str, *, exact: bool = True) -> None:
    log = broker.logs.get_log(PARTITION)
    if log is None:
        raise LostError(f"{which}: no log; {broker.names(A)} {broker.names(B)}")
    if broker.hosted.find(PARTITION) is None:
        broker.lead()
    found = values_of(broker.lead().log)
    wanted = promised[START:]
    if found[: len(wanted)] != wanted and (exact or not set(wanted) <= set(found)):
        raise LostError(f"{which}: {found} instead of {wanted}")
    if log.log_start_offset != START:
        raise LostError(f"{which}: it starts at {log.log_start_offset}")


@pytest.mark.parametrize("seed", range(2))
async def test_a_power_loss_at_any_moment_loses_nothing(seed: int) -> None:
    taken = await images(IMAGES_PER_CHANGE, seed)
    assert len(taken) > 200
    for image, promised, which in taken:
        await check(image, promised, which)


async def test_a_process_that_is_killed_at_any_moment_loses_nothing() -> None:
    taken = Taken()

    def take(disk: PowerDisk, promised: list[bytes]) -> None:
        taken.add(disk.image(Random(1), "killed"), promised, f"change {disk.sequence}")

    await moved(take)
    for image, promised, which in taken.images:
        await check(image, promised, which)


async def check_many() -> None:
    for seed in range(20):
        for image, promised, which in await images(6, seed):
            await check(image, promised, which)


class HastyDisk(PowerDisk):
    """Syncs no directory in which a log has just given its name up."""

    def sync_directory(self, path: str) -> None:
        if not any(name.endswith("-replaced") for name in self.list(path)):
            super().sync_directory(path)


async def test_these_images_find_a_swap_that_does_not_wait_for_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moving_broker, "PowerDisk", HastyDisk)

    with pytest.raises(LostError):
        await check_many()


@pytest.mark.parametrize("refused", ["rename", "fsync"])
async def test_each_refusal_of_a_disk_leaves_one_log(refused: str) -> None:
    """Of the first disk or the second, at each such step, once."""
    nth, was_reached = 0, True
    while was_reached:
        nth += 1
        was_reached = await _survives(refused, nth)
    assert nth > 3


async def _survives(refused: str, nth: int) -> bool:
    """Whether the move came to such a step so often."""
    broker = MovingBroker(**SETTINGS)
    partition = broker.lead()
    broker.append(partition, *VALUES)
    partition.log.flush(and_closed=True)
    seen = 0

    def refuse(operation: str, path: str) -> None:
        nonlocal seen
        seen += operation == refused
        if operation == refused and seen == nth:
            raise StorageError(path, operation, 5)

    broker.disk.before_change = refuse
    await broker.alter(B)
    await broker.settle()
    broker.disk.before_change = None
    await broker.moves.shutdown()
    broker.logs.release()
    broker.disk.let_go()
    again = MovingBroker(broker.disk, **SETTINGS)
    assert values_of(again.lead().log) == VALUES, nth
    await again.stop()
    return seen >= nth
