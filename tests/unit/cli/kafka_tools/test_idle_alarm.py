"""The alarm of a reader for whom nothing comes."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from kbroker.cli.kafka_tools.idle_alarm import IdleAlarm


def left_s() -> float:
    return signal.getitimer(signal.ITIMER_REAL)[0]


@pytest.fixture(autouse=True)
def the_timer_is_free() -> Iterator[None]:
    """Who bounds the time of a test has the same one."""
    handler, (left, _) = signal.getsignal(signal.SIGALRM), signal.setitimer(signal.ITIMER_REAL, 0)
    yield
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, left)


@pytest.fixture
def alarm() -> IdleAlarm:
    return IdleAlarm(60_000, 3)


def test_it_rings_as_ctrl_c_and_is_told_from_it(alarm: IdleAlarm) -> None:
    alarm.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGALRM)
    finally:
        alarm.stop()

    assert alarm.has_rung


def test_it_begins_again_with_each_record_until_the_last_one(alarm: IdleAlarm) -> None:
    alarm.start()
    signal.setitimer(signal.ITIMER_REAL, 30)

    alarm.came(2)
    assert left_s() > 30
    alarm.came(3)
    assert left_s() == 0


def test_without_a_time_it_never_rings() -> None:
    alarm = IdleAlarm(None, None)

    alarm.start()
    alarm.came(1)

    assert left_s() == 0
