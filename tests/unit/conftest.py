"""What tests of several rooms begin with: an event loop, and a cluster of brokers around one tree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from kbroker.config.kafka_config import KafkaConfig
from tests.fakes.clusters.controller_cluster import ControllerCluster, running
from tests.fakes.running.virtual_loop import VirtualLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """A real loop, or with the mark `virtual_time` one whose time jumps to the next timer."""
    if item.get_closest_marker("virtual_time") is not None:
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}


@pytest.fixture
def brokers() -> int:
    """How many there are; a file or a test may say else."""
    return 1


@pytest.fixture
def config() -> KafkaConfig | None:
    """Of all brokers; None is the profile `dev`."""
    return None


@pytest.fixture
async def cluster(brokers: int, config: KafkaConfig | None) -> AsyncIterator[ControllerCluster]:
    async with running(ControllerCluster(config), brokers=brokers) as cluster:
        yield cluster
