"""Finds topics that will not keep what is restored into them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbroker.config.config_values import MAX_LONG
from kbroker.config.topic_config import TopicConfig
from kbroker.pipeline.restoring.restore_plan import PartitionPlan


def doomed_topics(
    plans: Sequence[PartitionPlan], configs: Mapping[str, TopicConfig], now_ms: int
) -> set[str]:
    """Return the target topics that get whole files of records older than their retention.ms."""
    found: set[str] = set()
    for plan in plans:
        topic = plan.target.topic
        oldest_ms = now_ms - _kept_ms(configs[topic]) if topic in configs else 0
        if any(0 <= entry.max_timestamp_ms < oldest_ms for entry in plan.files):
            found.add(topic)
    return found


def _kept_ms(config: TopicConfig) -> int:
    return config.retention_ms if config.is_deleted and config.retention_ms >= 0 else MAX_LONG
