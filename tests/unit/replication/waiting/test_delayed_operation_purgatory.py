from __future__ import annotations

import weakref
from collections import deque
from itertools import pairwise

import pytest

from kbroker.replication.waiting.delayed_operation_purgatory import (
    SLICE_OPERATIONS,
    DelayedOperation,
    DelayedOperationPurgatory,
)
from tests.fakes.running.virtual_time import VirtualTime, VirtualTimerHandle


class Waiting(DelayedOperation):
    """Done once `ready` has been set; keeps what happened to it."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = False
        self.looked_at: list = []
        self.events: list[str] = []

    def try_complete(self, key) -> bool:
        self.looked_at.append(key)
        return self.ready

    def on_complete(self) -> None:
        self.events.append("completed")

    def on_expiration(self) -> None:
        self.events.append("expired")


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def purgatory(time) -> DelayedOperationPurgatory[Waiting]:
    return DelayedOperationPurgatory(time, time)


def test_an_operation_completes_when_its_condition_holds(purgatory):
    operation = Waiting()
    purgatory.watch(operation, ["a", "b"], 100)

    first = purgatory.check_and_complete("a")
    operation.ready = True
    second = purgatory.check_and_complete("b")

    assert (first, second) == (0, 1)
    assert operation.events == ["completed"]
    assert operation.looked_at == ["a", "b"]


def test_other_keys_wake_nobody(purgatory):
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)

    purgatory.check_and_complete("c")

    assert operation.looked_at == []


def test_a_completed_operation_leaves_all_its_keys(purgatory):
    operation = Waiting()
    purgatory.watch(operation, ["a", "b"], 100)
    operation.ready = True

    purgatory.check_and_complete("a")

    assert (len(purgatory), purgatory.watched()) == (0, 0)


def test_an_operation_expires_at_its_deadline(purgatory, time):
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)

    time.advance(99)
    before = list(operation.events)
    time.advance(1)

    assert (before, operation.events) == ([], ["expired"])
    assert (len(purgatory), purgatory.watched()) == (0, 0)


def test_an_operation_ends_once(purgatory, time):
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)
    operation.ready = True

    purgatory.check_and_complete("a")
    purgatory.check_and_complete("a")
    time.advance(200)

    assert operation.events == ["completed"]


def test_one_timer_serves_all_deadlines(purgatory, time):
    operations = [Waiting() for _ in range(3)]
    purgatory.watch(operations[0], ["a"], 100)
    purgatory.watch(operations[1], ["a"], 300)
    purgatory.watch(operations[2], ["a"], 50)

    armed = time.armed()
    time.advance(100)

    assert armed == 1
    assert [o.events for o in operations] == [["expired"], [], ["expired"]]
    assert time.armed() == 1


def test_a_dropped_operation_answers_nothing(purgatory, time):
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)

    purgatory.drop(operation)
    operation.ready = True
    purgatory.check_and_complete("a")
    time.advance(200)

    assert operation.events == []


def test_without_time_an_operation_expires_at_once(purgatory):
    operation = Waiting()

    purgatory.watch(operation, ["a"], 0)

    assert operation.events == ["expired"]
    assert len(purgatory) == 0


def test_a_full_purgatory_makes_nobody_wait(time):
    purgatory = DelayedOperationPurgatory(time, time, operations_max=1)
    first, second = Waiting(), Waiting()

    purgatory.watch(first, ["a"], 100)
    purgatory.watch(second, ["a"], 100)

    assert (first.events, second.events) == ([], ["expired"])


def test_completed_operations_do_not_pile_up(time):
    purgatory = DelayedOperationPurgatory(time, time, purge_interval=10)
    made = []
    for _ in range(100):
        operation = Waiting()
        purgatory.watch(operation, ["a"], 10_000)
        purgatory.drop(operation)
        made.append(weakref.ref(operation))

    assert sum(each() is not None for each in made) <= 11


def test_shutdown_expires_what_waits(purgatory, time):
    operation = Waiting()
    purgatory.watch(operation, ["a"], 100)

    purgatory.shutdown()

    assert operation.events == ["expired"]
    assert time.armed() == 0


def test_an_operation_that_is_watched_while_others_complete_is_not_lost(purgatory):
    later = Waiting()

    class Chaining(Waiting):
        def on_complete(self) -> None:
            super().on_complete()
            purgatory.watch(later, ["a"], 100)

    first = Chaining()
    first.ready = True
    purgatory.watch(first, ["a"], 100)

    purgatory.check_and_complete("a")
    later.ready = True
    purgatory.check_and_complete("a")

    assert later.events == ["completed"]


def test_an_operation_is_watched_once_under_each_of_its_keys(purgatory):
    first, second = Waiting(), Waiting()
    purgatory.watch(first, ["a", "b"], 100)
    purgatory.watch(second, ["b"], 100)

    assert (len(purgatory), purgatory.watched()) == (2, 3)
    purgatory.drop(first)
    assert (len(purgatory), purgatory.watched()) == (1, 1)


class Turns:
    """A timer that keeps what is to run in the next turns of the loop."""

    def __init__(self) -> None:
        self.to_come = deque()

    def call_later(self, delay_ms, callback) -> VirtualTimerHandle:
        if not delay_ms:
            self.to_come.append(callback)
        return VirtualTimerHandle()


def test_where_very_many_wait_others_run_in_between(time):
    turns = Turns()
    purgatory = DelayedOperationPurgatory(time, turns)
    operations = [Waiting() for _ in range(SLICE_OPERATIONS * 2 + 5)]
    for operation in operations:
        purgatory.watch(operation, ["a"], 100)

    def looks() -> int:
        return sum(len(operation.looked_at) for operation in operations)

    purgatory.check_and_complete("a")
    purgatory.check_and_complete("a")  # once more, behind the others of now
    found = [0, looks()]
    while turns.to_come:
        turns.to_come.popleft()()
        found.append(looks())

    assert max(after - before for before, after in pairwise(found)) == SLICE_OPERATIONS
    assert [operation.looked_at for operation in operations] == [["a", "a"]] * len(operations)


def test_those_that_ended_meanwhile_are_not_looked_at(purgatory, time):
    operations = [Waiting() for _ in range(SLICE_OPERATIONS + 2)]
    for operation in operations:
        operation.ready = True
        purgatory.watch(operation, ["a", "b"], 100)

    first = purgatory.check_and_complete("a")
    purgatory.drop(operations[-1])
    purgatory.check_and_complete("b")
    time.advance(1)

    assert first == SLICE_OPERATIONS
    assert [operation.events for operation in operations[:-1]] == [["completed"]] * (first + 1)
    assert operations[-1].events == operations[-1].looked_at == []
    assert (len(purgatory), purgatory.watched()) == (0, 0)
