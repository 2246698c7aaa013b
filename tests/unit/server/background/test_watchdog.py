from __future__ import annotations

import asyncio
import time

import pytest

from kbroker.server.background.watchdog import Watchdog


async def test_a_block_is_reported_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(limit_ms=50)
    watchdog.start()
    await asyncio.sleep(0)
    time.sleep(0.3)  # noqa: ASYNC251  the block
    await asyncio.sleep(0.05)
    watchdog.stop()

    assert watchdog.blocks >= 1
    assert watchdog.longest_ms > 100
    assert "in test_a_block_is_reported_with_its_place" in caplog.text
