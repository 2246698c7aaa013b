"""BrokerQuotas: the quotas of a broker, from the first node of the tree that has one.

Law: what counts is made here alone, and imported with that node, as most clusters have no quotas
and would pay with a third of a megabyte. Where code of the operator's decides, it is there from the
start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.network.socket_server import SocketServer
from kbroker.quotas.quota_keys import QUOTA_KEYS
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.zk.zk_paths import CLIENT_CONFIGS, IP_CONFIGS, USER_CONFIGS

if TYPE_CHECKING:
    from kbroker.server.broker.quotas_in_force import QuotasInForce


class BrokerQuotas:
    """Owned by the event loop."""

    def __init__(self, make: Callable[[], QuotasInForce]) -> None:
        self._make = make
        self._made: QuotasInForce | None = None

    @property
    def in_force(self) -> QuotasInForce:
        """The quotas, made when they are first asked for."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def follow(self, changes: DynamicConfigManager) -> None:
        """Learn of all limits with the start of `changes`, and of what comes after it."""
        for entity_type in (USER_CONFIGS, CLIENT_CONFIGS, IP_CONFIGS):
            changes.add_handler(entity_type, partial(self._changed, entity_type))

    async def start(self) -> None:
        """Begin to count, if the operator's code decides."""
        if self._made is not None:
            await self._made.limited.start()

    async def stop(self) -> None:
        """Look for no further addresses, and ask the operator's code no more."""
        if self._made is not None:
            await self._made.limited.stop()
            await self._made.followed.stop()

    def _changed(self, entity_type: str, name: str, overrides: Mapping[str, str]) -> None:
        if self._made is not None or not QUOTA_KEYS.isdisjoint(overrides):
            self.in_force.followed.changed(entity_type, name, overrides)


def quotas_of(
    server: SocketServer,
    apis: KafkaApis,
    config: KafkaConfig,
    clock: Clock,
    metadata: MetadataCache,
) -> BrokerQuotas:
    """Return the quotas of a broker. Raises ConfigError for code that cannot be had."""

    def make() -> QuotasInForce:
        from kbroker.server.broker.quotas_in_force import quotas_in_force

        return quotas_in_force(server, apis, config, clock, metadata)

    quotas = BrokerQuotas(partial(registered().imported, make))
    if config.quota.client_quota_callback_class is not None:
        _ = quotas.in_force
    return quotas
