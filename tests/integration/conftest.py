from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest

from kbroker.server.start.event_loop import EventLoopKind, loop_factory
from tests.fakes.running.forked_broker import Broker


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A loop of asyncio; with the mark `both_loops` each test runs on one of uvloop as well."""
    kinds = [EventLoopKind.ASYNCIO]
    if item.get_closest_marker("both_loops") is not None:
        kinds.append(EventLoopKind.UVLOOP)
    return {kind.value: loop_factory(kind) for kind in kinds}


@pytest.fixture(scope="module")
def source() -> Iterator[str]:
    """The address of a broker that mirrors copy from."""
    with Broker() as made:
        yield made.bootstrap


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The address of a broker that they copy to."""
    with Broker() as made:
        yield made.bootstrap


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name of a topic that no other test of the module has."""
    return str(request.node.name)
