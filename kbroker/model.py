"""Values that every layer uses: identifiers, addresses, leadership.

Pure. Data only, no behaviour beyond equality.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, NewType
from uuid import UUID

BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)

NO_LEADER = -1  # leader field of a partition that has none (LeaderAndIsr.NoLeader)
NO_CONTROLLER = -1  # controller of a cluster that has none (Metadata)
LEADER_DURING_DELETE = (
    -2
)  # leader field while its topic is deleted (LeaderAndIsr.LeaderDuringDelete)
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1
CONSUMER_REPLICA_ID = -1  # the fetcher is not a broker
UNKNOWN_BROKER_EPOCH = -1  # also of controllers older than Kafka 2.2 (KIP-380)
ZERO_UUID = UUID(int=0)  # "no topic id" on the wire
# Leader recovery states (KIP-704): after an unclean election records may be missing.
RECOVERED, RECOVERING = 0, 1

new_tuple = tuple.__new__
"""Makes a NamedTuple of `(its class, values)` for half the price of calling it."""

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")  # by their id on the wire
WITH_TLS = frozenset({"SSL", "SASL_SSL"})
WITH_LOGINS = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
SECURITY_PROTOCOL_IDS = {name: number for number, name in enumerate(SECURITY_PROTOCOLS)}

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"  # of KRaft: the log of its controllers
INTERNAL_TOPICS = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC})


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka names its log directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPoint:
    """A listener's address: `PLAINTEXT://host:port` under a listener name; a host of IPv6 stands in
    brackets in texts, and without them here.
    """

    listener_name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener_name}://{host}:{self.port}"


class SupportedFeature(NamedTuple):
    """A feature and the levels of it that a broker supports, both ends inclusive."""

    name: str
    lowest: int
    highest: int


class FinalizedFeatures(NamedTuple):
    """The levels that the cluster has settled on, by feature."""

    levels: Mapping[str, int] = {}
    epoch: int = -1  # version of the features' znode; -1 if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered broker: its id, addresses, rack and features.

    `epoch` is the creation id (czxid) of its znode. `has_lost_memory`: it comes back from the end
    of its machine, so records that it had not synced may be gone; only kbroker's brokers report
    this.
    """

    broker_id: int
    end_points: tuple[EndPoint, ...]
    rack: str | None = None
    epoch: int = -1
    features: tuple[SupportedFeature, ...] = ()
    has_lost_memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """The leader and the in-sync replicas of a partition, as in its state znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int = 0  # version of the state znode
    leader_recovery_state: int = RECOVERED


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAssignment:
    """The brokers that hold a partition, the preferred leader first."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
