from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from kbroker.server.event_loop import EventLoopKind, loop_factory


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop of asyncio; with the mark `both_loops` each test runs on one of uvloop as well."""
    kinds = [EventLoopKind.ASYNCIO]
    if item.get_closest_marker("both_loops") is not None:
        kinds.append(EventLoopKind.UVLOOP)
    return {kind.value: loop_factory(kind) for kind in kinds}
