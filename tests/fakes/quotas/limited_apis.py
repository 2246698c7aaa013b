"""A KafkaApis whose clients have limits."""

from __future__ import annotations

from typing import Any

from kbroker.apis.context import Services
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.registry import registered
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.client_quota_manager import ClientQuotaManager
from kbroker.quotas.quota_entity import QuotaEntity
from kbroker.quotas.rate import Windows

ANONYMOUS = QuotaEntity(user="ANONYMOUS")


class LimitedApis(KafkaApis):
    """Every client is User:ANONYMOUS; `put` gives it other limits."""

    def __init__(self, services: Services, **values: float) -> None:
        super().__init__(registered(), services)
        self.limits = ClientLimits()
        self.manager = ClientQuotaManager(self.limits, Windows())
        self.put(**values)

    def put(self, entity: QuotaEntity = ANONYMOUS, **values: float) -> None:
        """Let an entity have these limits alone, from the next request on."""
        self.limits.put(entity, values)
        self.limit(self.manager if self.manager.settle() else None)

    @property
    def used(self) -> Any:
        """The limits of the client, with what is used of them."""
        return self.manager.account("User:ANONYMOUS", "client", 0)
