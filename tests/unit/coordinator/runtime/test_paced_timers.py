"""Timers that fall due together leave room for what else there is to do."""

from __future__ import annotations

from collections.abc import Callable

from kbroker.coordinator.runtime.paced_timers import SLICE_MS, PacedTimers
from tests.fakes.running.virtual_time import VirtualTime


class Worked:
    """Timers whose callbacks take time; `ran` has who ran, and how long the loop had worked."""

    def __init__(self, took_ms: float) -> None:
        self.time = VirtualTime()
        self.took_ms = took_ms
        self.spent_ms = 0.0
        self.ran: list[tuple[int, float]] = []
        self.timers = PacedTimers(self, self.time)

    def now_ms(self) -> int:
        return self.time.now_ms()

    def monotonic_ms(self) -> float:
        return self.time.monotonic_ms() + self.spent_ms

    def work(self, number: int) -> Callable[[], None]:
        def work() -> None:
            self.spent_ms += self.took_ms
            self.ran.append((number, self.spent_ms))

        return work

    def turn(self, passed_ms: float) -> int:
        """Let time pass, and return how many ran."""
        before = len(self.ran)
        self.time.advance(max(0.0, passed_ms - self.spent_ms))
        self.spent_ms = 0.0
        return len(self.ran) - before


def test_many_that_fall_due_at_once_run_in_slices_and_none_is_lost() -> None:
    worked = Worked(took_ms=1.0)
    for number in range(200):
        worked.timers.set(number, 100.0, worked.work(number))
    assert worked.turn(99.0) == 0

    counts = [worked.turn(1.0)]
    while sum(counts) < 200:
        counts.append(worked.turn(SLICE_MS))

    assert max(counts) <= 2 * SLICE_MS
    assert len(counts) < 200
    assert sorted(number for number, _ in worked.ran) == list(range(200))


def test_one_that_is_put_off_can_be_cancelled_and_set_again() -> None:
    worked = Worked(took_ms=2 * SLICE_MS)
    for number in range(4):
        worked.timers.set(number, 10.0, worked.work(number))
    assert worked.turn(10.0) == 1

    worked.timers.cancel(1)
    worked.timers.set(2, 500.0, worked.work(9))
    for _ in range(20):
        worked.turn(20.0)
    assert [number for number, _ in worked.ran] == [0, 3]
    worked.turn(100.0)
    assert [number for number, _ in worked.ran] == [0, 3, 9]

    worked.timers.set(5, 0.0, worked.work(5))
    worked.timers.cancel_all()
    worked.turn(1_000.0)
    assert len(worked.ran) == 3


def test_short_ones_all_run_at_once() -> None:
    worked = Worked(took_ms=0.0)
    for number in range(1_000):
        worked.timers.set(number, 10.0, worked.work(number))

    assert worked.turn(10.0) == 1_000
