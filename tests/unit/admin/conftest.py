"""A cluster of brokers around one tree; `brokers` says how many, and a file or a test may say else."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kbroker.config.kafka_config import KafkaConfig
from tests.fakes.controller_cluster import ControllerCluster, running


@pytest.fixture
def brokers() -> int:
    return 1


@pytest.fixture
def config() -> KafkaConfig | None:
    """Of all brokers; None is the profile `dev`."""
    return None


@pytest.fixture
async def cluster(brokers: int, config: KafkaConfig | None) -> AsyncIterator[ControllerCluster]:
    async with running(ControllerCluster(config), brokers=brokers) as cluster:
        yield cluster
