"""A request context over one broker of a controller cluster, for handlers that administer it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from kbroker.admin.producer_id_manager import ProducerIdManager
from kbroker.config.kafka_config import KafkaConfig
from kbroker.protocol.codec import decode, encode
from tests.fakes.controller_cluster import ControllerCluster, FakeBroker

Handle = Callable[[Any, Any], Awaitable[Any]]


class AdminClient:
    """Sends requests to one broker's handlers, over the wire format in both directions."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self._producer_ids = ProducerIdManager(broker.zk, broker.broker_id)

    async def ask(self, handle: Handle, request: Any, version: int) -> Any:
        context = SimpleNamespace(
            api_version=version,
            controller=self.broker.controller,
            topics=self.broker.topics,
            configs=self.broker.configs,
            metadata=self.broker.metadata,
            producer_ids=self._producer_ids,
            config=self.broker.cluster.config,
        )
        received, _ = decode(type(request), version, encode(request, version))
        response = await handle(context, received)
        return decode(type(response), version, encode(response, version))[0]


def with_client(
    scenario: Callable[[AdminClient], Awaitable[None]],
    settings: dict[str, str] | None = None,
    brokers: int = 1,
) -> None:
    """Run a scenario against the first of some brokers; the first is controller."""

    async def main() -> None:
        cluster = ControllerCluster(KafkaConfig.for_profile("dev", settings or {}))
        for broker_id in range(brokers):
            await cluster.start(broker_id)
        try:
            await scenario(AdminClient(cluster.brokers[0]))
        finally:
            await cluster.stop()

    asyncio.run(main())
