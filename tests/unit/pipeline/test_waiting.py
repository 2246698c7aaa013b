"""Waiting for the next round, so that a signal is heard soon whenever it comes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kbroker.pipeline import waiting
from kbroker.pipeline.waiting import wait_until


class SleepingClock:
    """`sleep` lets time pass; True once `ends_at_s` has come."""

    def __init__(self, ends_at_s: float | None = None) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []
        self._ends_at_s = ends_at_s

    def sleep(self, seconds: float) -> bool:
        self.slept.append(seconds)
        self.now_s += seconds
        return self._ends_at_s is not None and self.now_s >= self._ends_at_s


def waited(monkeypatch: pytest.MonkeyPatch, clock: SleepingClock, when_s: float) -> float:
    """The seconds that went by."""
    monkeypatch.setattr(waiting, "time", SimpleNamespace(monotonic=lambda: clock.now_s))
    wait_until(when_s, clock.sleep)
    return clock.now_s - 100.0


def test_a_long_wait_is_many_short_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SleepingClock()

    assert waited(monkeypatch, clock, 160.0) == 60.0
    assert max(clock.slept) <= 1.0, "Ctrl-C before a sleep is heard after it"


def test_a_wait_that_is_told_to_end_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waited(monkeypatch, SleepingClock(ends_at_s=103.0), 160.0) == 3.0


def test_what_is_due_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SleepingClock()

    assert waited(monkeypatch, clock, 99.0) == 0.0
    assert clock.slept == []
