"""Who of several threads may compute."""

from __future__ import annotations

import gc
import os
from threading import Thread

import pytest

from kbroker.replication.long_work import ThreadTurn

pytestmark = pytest.mark.timeout(30)


def test_the_turn_goes_round_in_the_order_in_which_threads_wait() -> None:
    turn = ThreadTurn()
    order: list[str] = []

    def work(name: str) -> None:
        turn.take()
        for _ in range(3):
            order.append(name)
            turn.hand_on()
        turn.give()

    threads = [Thread(target=work, args=(name,)) for name in "abc"]
    turn.take()
    for waiting, thread in enumerate(threads):
        thread.start()
        while turn.waiting == waiting:
            os.sched_yield()
    turn.give()
    for thread in threads:
        thread.join()

    assert order == list("abc") * 3


def test_nothing_is_handed_on_where_nobody_waits() -> None:
    turn = ThreadTurn()
    turn.take()

    turn.hand_on()

    assert not gc.isenabled()  # this thread still has the turn
    turn.give()
    assert (turn.waiting, gc.isenabled()) == (0, True)
