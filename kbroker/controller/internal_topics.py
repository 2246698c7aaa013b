"""How a topic looks that nobody laid out: created on first use, or one of the broker's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    num_partitions: int
    replication_factor: int
    overrides: Mapping[str, str]


def new_topic(name: str, config: KafkaConfig) -> NewTopic:
    """Layout and overrides of a topic that is created automatically."""
    if name == GROUP_METADATA_TOPIC:
        return NewTopic(
            name=name,
            num_partitions=config.group.offsets_topic_num_partitions,
            replication_factor=config.group.offsets_topic_replication_factor,
            overrides={
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(config.group.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        transaction = config.transaction
        return NewTopic(
            name=name,
            num_partitions=transaction.transaction_state_log_num_partitions,
            replication_factor=transaction.transaction_state_log_replication_factor,
            overrides={
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(transaction.transaction_state_log_min_isr),
                "segment.bytes": str(transaction.transaction_state_log_segment_bytes),
            },
        )
    return NewTopic(
        name=name,
        num_partitions=config.log.num_partitions,
        replication_factor=config.replication.default_replication_factor,
        overrides={},
    )
