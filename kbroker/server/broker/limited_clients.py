"""The clients of a broker that have limits: counting begins with the first limit, and ends with the
last one, while the broker runs. Where code of the operator's decides, all clients are counted.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.quota_config import QuotaConfig
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.client_quota_manager import ClientQuotaManager
from kbroker.quotas.rate import Windows
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.server.broker.operators_code import QUOTA_CALLBACK, made

if TYPE_CHECKING:  # brokers without such code do without it
    from kbroker.admin.own_quotas import OwnQuotas


class LimitedClients:
    """Lets `limits` hold for the requests of a broker. Owned by the event loop."""

    def __init__(self, apis: KafkaApis, config: QuotaConfig) -> None:
        self._apis = apis
        self._is_due = False
        self.windows = (
            Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000),
            Windows(
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds * 1_000,
            ),
        )
        self.own: OwnQuotas | None = None
        self.limits: ClientLimits | OwnQuotas = ClientLimits()
        self.quotas = ClientQuotaManager(self.limits, *self.windows)

    def decided_by(self, own: OwnQuotas) -> None:
        """Let these decide; they get the limits of the tree."""
        self.own = self.limits = self.quotas = own

    async def start(self) -> None:
        """Begin to count, if the operator's code decides."""
        if self.own is not None:
            await self.own.start()

    async def stop(self) -> None:
        """Ask the operator's code no more."""
        if self.own is not None:
            await self.own.stop()

    def changed(self) -> None:
        """Let `limits` hold as they are now: for requests of later turns of the loop, whatever else
        changes in this one.
        """
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._settle)

    def _settle(self) -> None:
        self._is_due = False
        self._apis.limit(self.quotas if self.quotas.settle() else None)


def limited_clients(
    apis: KafkaApis, config: KafkaConfig, clock: Clock, metadata: MetadataCache
) -> LimitedClients:
    """Return the limited clients of a broker with these settings. Raises ConfigError."""
    limited = LimitedClients(apis, config.quota)
    name = config.quota.client_quota_callback_class
    if name is not None:
        from kbroker.admin.own_quotas import OwnQuotas, QuotaCallback

        code = made(QUOTA_CALLBACK, name, config, ("quota_metric_tags", "quota_limit"))
        own = OwnQuotas(
            QuotaCallback(name, code), clock, limited.windows, limited.changed, metadata
        )
        limited.decided_by(own)
    return limited
