"""How a topic looks that nobody laid out: created on first use, or one of the broker's own.

The broker's own topics take the replicas there can be, whatever their setting says: Kafka's default
is 3, and no group would ever find its coordinator with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

_REPLICAS_MAX = 1  # records are not replicated


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; `note` is what the operator should know when it has been."""

    name: str
    num_partitions: int
    replication_factor: int
    overrides: Mapping[str, str]
    note: str | None = None


def new_topic(name: str, config: KafkaConfig) -> NewTopic:
    """Layout and overrides of a topic that is created automatically."""
    if name == GROUP_METADATA_TOPIC:
        wanted = config.group.offsets_topic_replication_factor
        return NewTopic(
            name=name,
            num_partitions=config.group.offsets_topic_num_partitions,
            replication_factor=min(wanted, _REPLICAS_MAX),
            note=_note(name, wanted, "offsets.topic.replication.factor"),
            overrides={
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(config.group.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        transaction = config.transaction
        wanted = transaction.transaction_state_log_replication_factor
        replicas = min(wanted, _REPLICAS_MAX)
        return NewTopic(
            name=name,
            num_partitions=transaction.transaction_state_log_num_partitions,
            replication_factor=replicas,
            note=_note(name, wanted, "transaction.state.log.replication.factor"),
            overrides={
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(
                    min(transaction.transaction_state_log_min_isr, replicas)
                ),
                "segment.bytes": str(transaction.transaction_state_log_segment_bytes),
            },
        )
    return NewTopic(
        name=name,
        num_partitions=config.log.num_partitions,
        replication_factor=config.replication.default_replication_factor,
        overrides={},
    )


def _note(topic: str, wanted: int, setting: str) -> str | None:
    if wanted <= _REPLICAS_MAX:
        return None
    return (
        f"{topic} has {_REPLICAS_MAX} replica of each partition, not {wanted} ({setting}): records "
        "are not replicated between brokers"
    )
