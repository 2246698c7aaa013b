"""Keys that are read on a thread, while others look for them."""

from __future__ import annotations

import threading
from queue import Queue

import pytest

from compat_tests.running.waiting import until
from kbroker.tokens.published_keys import PublishedKeys
from kbroker.tokens.reading_schedule import ReadingSchedule
from tests.fakes.tokens.issuer import Issuer

HOUR_MS = 3_600_000


class SetClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ms = 0.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


def test_keys_are_read_again_for_one_that_is_not_known_and_old_ones_stay_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    issuer, clock = Issuer(), SetClock()
    answers: Queue[bytes] = Queue()
    begun = threading.Semaphore(0)

    def read() -> bytes:
        begun.release()
        answer = answers.get()
        if not answer:
            raise OSError("it hangs up")
        return answer

    keys = PublishedKeys("https://keys", read, ReadingSchedule(HOUR_MS, 1, 1, 0), clock)
    assert keys.find("first", "ES256") is None  # nobody waits
    keys.start()
    try:
        answers.put(issuer.key_set())
        until(lambda: keys.find("first", "ES256"))
        assert begun.acquire(timeout=60)

        issuer.change_key("second")
        clock.ms = 60_000
        assert keys.find("second", "ES256") is None
        assert begun.acquire(timeout=60)  # and now the server hangs
        assert keys.find("first", "ES256") is not None
        answers.put(b"")
        until(lambda: caplog.messages)
        clock.ms += 10
        assert begun.acquire(timeout=60)
        answers.put(issuer.key_set())
        until(lambda: keys.find("second", "ES256"))
        assert keys.find("third", "ES256") is None  # not within a minute

        clock.ms += HOUR_MS - 1
        assert not begun.acquire(blocking=False)
        clock.ms += 1
        assert keys.find("third", "ES256") is None
        assert begun.acquire(timeout=60)
        answers.put(b"[]")
        until(lambda: len(caplog.messages) == 3)
    finally:
        keys.close()
    until(lambda: not any(each.name == "kbroker-token-keys" for each in threading.enumerate()))
    assert caplog.messages == [
        "the keys of tokens cannot be read from https://keys: it hangs up; the 1 known ones stay "
        "in force",
        "the keys of tokens can be read again from https://keys",
        "the keys of tokens cannot be read from https://keys: it is not a set of JSON web keys; "
        "the 2 known ones stay in force",
    ]
