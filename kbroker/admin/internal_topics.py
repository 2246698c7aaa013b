"""The layout of topics that nobody laid out: created on first use, or one of the broker's own.

The broker's own topics get the replicas that their settings say, and are not made before there are
as many brokers: made with fewer they would keep fewer for good. Brokers over a tree of their own
live in one process and can be no more than they are: there, as many replicas as brokers are enough.
Over a ZooKeeper other brokers may come at any time, so a single replica is reported even by a
broker that is alone: most operators find out when they lose it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.config.kafka_config import KafkaConfig
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class NewTopic:
    """A topic to create; `note` is for the operator once it is created."""

    name: str
    num_partitions: int
    replication_factor: int
    overrides: Mapping[str, str]
    note: str | None = None


class _Kept(NamedTuple):
    """An internal topic: the setting of its replicas, what waits while the broker of the only
    replica is away, and what is lost with its disk.
    """

    replicas_setting: str
    waits: str
    is_lost: str


_OFFSETS = _Kept(
    "offsets.topic.replication.factor",
    "groups of that part read nothing",
    "the offsets that they committed",
)
_TRANSACTION_STATE = _Kept(
    "transaction.state.log.replication.factor",
    "transactional ids of that part wait",
    "what they have open and had decided",
)


def new_topic(name: str, config: KafkaConfig, brokers: int) -> NewTopic:
    """Layout and overrides of a topic that is created automatically while there are `brokers`."""
    if name == GROUP_METADATA_TOPIC:
        wanted = config.group.offsets_topic_replication_factor
        replicas = _replicas(wanted, config, brokers)
        return NewTopic(
            name=name,
            num_partitions=config.group.offsets_topic_num_partitions,
            replication_factor=replicas,
            note=_note(name, replicas, wanted, config, _OFFSETS),
            overrides={
                "compression.type": "producer",
                "cleanup.policy": "compact",
                "segment.bytes": str(config.group.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        transaction = config.transaction
        wanted = transaction.transaction_state_log_replication_factor
        replicas = _replicas(wanted, config, brokers)
        return NewTopic(
            name=name,
            num_partitions=transaction.transaction_state_log_num_partitions,
            replication_factor=replicas,
            note=_note(name, replicas, wanted, config, _TRANSACTION_STATE),
            overrides={
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": str(_min_isr(config, replicas, wanted)),
                "segment.bytes": str(transaction.transaction_state_log_segment_bytes),
            },
        )
    return NewTopic(
        name=name,
        num_partitions=config.log.num_partitions,
        replication_factor=config.replication.default_replication_factor,
        overrides={},
    )


def _replicas(wanted: int, config: KafkaConfig, brokers: int) -> int:
    return wanted if config.zk.zookeeper_connect else min(wanted, max(brokers, 1))


def _min_isr(config: KafkaConfig, replicas: int, wanted: int) -> int:
    # With fewer replicas than configured, no more than those: it could not be written to.
    min_isr = config.transaction.transaction_state_log_min_isr
    return min_isr if replicas == wanted else min(min_isr, replicas)


def _note(topic: str, replicas: int, wanted: int, config: KafkaConfig, kept: _Kept) -> str | None:
    if replicas != wanted:
        noun = "replica" if replicas == 1 else "replicas"
        return (
            f"{topic} has {replicas} {noun} of each partition, not {wanted} "
            f"({kept.replicas_setting}): there are no more brokers over this tree"
        )
    if wanted == 1 and config.zk.zookeeper_connect:
        return (
            f"{topic} has one replica of each partition ({kept.replicas_setting}=1): while its "
            f"broker is away {kept.waits}, and with its disk {kept.is_lost} are lost; `kbroker "
            f"cluster reassign --topic {topic} --to ID,ID,ID` gives it more"
        )
    return None
