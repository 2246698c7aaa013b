"""Dynamic settings kept in dicts instead of the metadata tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kbroker.config.kafka_config import KafkaConfig


@dataclass
class StoredConfigs:
    """Settings by topic and by broker; the broker None stands for the whole cluster."""

    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    brokers: Mapping[int | None, Mapping[str, str]] = field(default_factory=dict)
    in_force: KafkaConfig = field(default_factory=KafkaConfig)

    async def topic_overrides(self, topic: str) -> Mapping[str, str]:
        return self.topics.get(topic, {})

    async def groups(self) -> list[str]:
        return []

    async def broker_overrides(self, broker_id: int | None) -> Mapping[str, str]:
        return self.brokers.get(broker_id, {})
