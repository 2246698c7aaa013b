"""What a long load builds costs no collections, and goes with its partition.

Run by test_frozen_state.py, in a process that holds little else.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from kbroker.coordinator.runtime.frozen_state import FrozenState
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.record.record_batch import Record, build
from tests.fakes.brokers.group_broker import OffsetsLog
from tests.fakes.brokers.tally import Tally, TallyMachine
from tests.fakes.logs.log_maker import NOW_MS

PARTITION, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Kept:
    """Refers to itself, so that only a collection can free it."""

    def __init__(self) -> None:
        self.home = self


@pytest.fixture
def before() -> int:
    """How many objects are kept out by others."""
    return gc.get_freeze_count()


def load(steps: int, built: list[Kept]) -> Iterator[None]:
    for _ in range(steps):
        built.append(Kept())
        yield


def loaded(frozen: FrozenState, steps: int) -> list[Kept]:
    built: list[Kept] = []
    for _ in frozen.kept_out(PARTITION, load(steps, built)):
        pass
    return built


def is_collected(built: list[Kept]) -> bool:
    """Whether nobody else keeps what was built; the list is emptied."""
    first = weakref.ref(built[0])
    built.clear()
    gc.collect()
    return first() is None


def test_a_long_load_is_kept_out_and_given_back_with_its_partition(before: int) -> None:
    frozen = FrozenState()

    built = loaded(frozen, 2500)

    assert gc.get_freeze_count() >= before + 2000
    frozen.let_go(OTHER)
    assert gc.get_freeze_count() >= before + 2000
    frozen.let_go(PARTITION)
    assert is_collected(built)


def test_a_short_load_keeps_nothing_out(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen = FrozenState()
    freezes: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(gc, "freeze", lambda: freezes.append("all"))

        built = loaded(frozen, 999)

    assert freezes == []
    assert gc.get_freeze_count() <= before, "what others had frozen may be gone by now"
    assert is_collected(built)


def test_a_load_that_is_broken_off_is_given_back() -> None:
    frozen, built = FrozenState(), list[Kept]()
    steps = frozen.kept_out(PARTITION, load(5000, built))
    for _ in range(1500):
        next(steps)

    frozen.let_go(PARTITION)

    assert is_collected(built)


def long_log() -> OffsetsLog:
    log = OffsetsLog()
    for number in range(1500):
        log.append(memoryview(bytearray(build([Record(0, NOW_MS, b"%d" % number, b"1")]))))
    log.confirm()
    return log


async def test_a_coordinator_frees_what_it_has_loaded_when_its_partition_moves_away(
    before: int,
) -> None:
    tally = Tally(long_log())
    machine = weakref.ref(tally.machine)
    assert gc.get_freeze_count() > before

    tally.resign()
    await asyncio.sleep(0)

    gc.collect()
    assert machine() is None


async def test_a_load_that_fails_is_given_back(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish_load(_machine: TallyMachine) -> Iterator[None]:
        assert gc.get_freeze_count() > before
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    monkeypatch.setattr(TallyMachine, "finish_load", finish_load)
    tally = Tally(long_log())

    assert tally.runtime.is_loading()
    assert gc.get_freeze_count() == 0
