from __future__ import annotations

import asyncio
import time

import pytest

from kbroker.server.background.watchdog import Watchdog


def test_a_block_is_reported_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> Watchdog:
        watchdog = Watchdog(limit_ms=50)
        watchdog.start()
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251  the block
        await asyncio.sleep(0.05)
        watchdog.stop()
        return watchdog

    watchdog = asyncio.run(scenario())
    assert watchdog.blocks >= 1
    assert watchdog.longest_ms > 100
    assert "in scenario" in caplog.text
