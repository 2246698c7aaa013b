"""The clients of a broker that have limits: counting begins with the first limit, and ends with the
last one, while the broker runs.
"""

from __future__ import annotations

import asyncio

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.config.quota_config import QuotaConfig
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.client_quota_manager import ClientQuotaManager
from kbroker.quotas.rate import Windows


class LimitedClients:
    """Lets `limits` hold for the requests of a broker. Owned by the event loop."""

    def __init__(self, apis: KafkaApis, config: QuotaConfig) -> None:
        self.limits = ClientLimits()
        self.quotas = ClientQuotaManager(
            self.limits,
            Windows(config.quota_window_num, config.quota_window_size_seconds * 1_000),
            Windows(
                config.controller_quota_window_num,
                config.controller_quota_window_size_seconds * 1_000,
            ),
        )
        self._apis = apis
        self._is_due = False

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
