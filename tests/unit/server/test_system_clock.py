from __future__ import annotations

import asyncio
import time

from kbroker.server.system_clock import SystemClock


def test_now_is_unix_time_in_milliseconds() -> None:
    assert abs(SystemClock().now_ms() - time.time() * 1000) < 1000


def test_monotonic_time_does_not_go_back() -> None:
    clock = SystemClock()
    assert clock.monotonic_ms() <= clock.monotonic_ms()


async def test_a_timer_runs_unless_it_is_cancelled() -> None:
    ran: list[str] = []
    clock = SystemClock()

    clock.call_later(0, lambda: ran.append("cancelled")).cancel()
    clock.call_later(-5, lambda: ran.append("kept"))
    await asyncio.sleep(0.01)

    assert ran == ["kept"]
