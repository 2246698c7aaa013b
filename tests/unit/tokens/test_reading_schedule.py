"""When keys are read again."""

from __future__ import annotations

from kbroker.tokens.reading_schedule import ASKED_AGAIN_MS, ReadingSchedule


def schedule() -> ReadingSchedule:
    return ReadingSchedule(3_600_000, 100, 10_000, 0)


def test_keys_are_read_at_once_and_then_as_often_as_the_setting_says() -> None:
    reading = schedule()
    assert reading.due_ms == 0

    reading.succeeded(50)

    assert reading.due_ms == 3_600_050


def test_a_server_that_fails_is_asked_less_and_less_often_until_it_answers() -> None:
    reading = schedule()
    waits = []
    for _ in range(40):
        reading.failed(1_000)
        waits.append(reading.due_ms - 1_000)

    assert waits[:8] == [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000]
    assert set(waits[8:]) == {10_000}

    reading.succeeded(1_000)
    reading.failed(1_000)
    assert reading.due_ms == 1_100


def test_unknown_keys_have_them_read_once_a_minute() -> None:
    reading = schedule()
    reading.succeeded(0)

    asked = [reading.asked(at_ms) for at_ms in (10, 11, ASKED_AGAIN_MS, ASKED_AGAIN_MS + 10)]

    assert asked == [True, False, False, True]
    assert reading.due_ms == 10
