"""The limit of the cleaner's bytes per second."""

from __future__ import annotations

import pytest

from kbroker.log.cleaner.pacer import CleaningAborted, Pacer


class Machine:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.stops_at_s = float("inf")

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def pacer(self, bytes_per_s: float) -> Pacer:
        return Pacer(
            bytes_per_s, lambda: self.now_s, self.pause, lambda: self.now_s >= self.stops_at_s
        )


def test_many_reads_take_as_long_as_the_rate_says() -> None:
    machine = Machine()
    pacer = machine.pacer(1000)
    for _ in range(50):
        pacer(100)
    assert machine.now_s == pytest.approx(5.0, abs=0.5)


def test_without_a_limit_nothing_waits() -> None:
    machine = Machine()
    for limit in (float("inf"), 1.7976931348623157e308):
        pacer = machine.pacer(limit)
        for _ in range(1000):
            pacer(1 << 30)
    assert machine.now_s == 0


def test_a_stop_is_heard_within_a_long_pause() -> None:
    machine = Machine()
    pacer = machine.pacer(1)
    machine.stops_at_s = 2.0
    with pytest.raises(CleaningAborted):
        pacer(1000)
    assert machine.now_s == pytest.approx(2.0, abs=0.11)
