"""One broker with an authorizer for all tests of a file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.running.virtual_loop import VirtualLoop
from tests.rights.ruled_broker import RuledBroker


@pytest.fixture(scope="module")
def loop() -> Iterator[VirtualLoop]:
    """The loop of the broker, whose time is virtual."""
    made = VirtualLoop()
    asyncio.set_event_loop(made)
    logging.disable(logging.CRITICAL)
    yield made
    logging.disable(logging.NOTSET)
    asyncio.set_event_loop(None)
    made.close()


@pytest.fixture(scope="module")
def broker(loop: VirtualLoop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RuledBroker]:
    """A broker that serves, with a topic, a group and a transactional id."""
    made = loop.run_until_complete(_started(tmp_path_factory.mktemp("ruled")))
    yield made
    made.stop()


async def _started(directory: Path) -> RuledBroker:
    broker = RuledBroker(directory)
    await broker.start()
    await broker.fill()
    return broker
