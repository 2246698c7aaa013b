"""Observations: all that the probes saw of a cluster, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import ip_address

from kbroker.client.partition_health import PartitionHealth
from kbroker.ip_addresses import EVERYWHERE
from kbroker.model import NO_CONTROLLER, TopicPartition
from kbroker.protocol.schema import Versions


class Speech(Enum):
    """The language of a port, by its first answers."""

    KAFKA = auto()
    KAFKA_OVER_TLS = auto()
    TLS = auto()
    HTTP = auto()
    ZOOKEEPER = auto()
    OTHER = auto()
    CLOSED = auto()  # it ends every connection
    SILENCE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An answer of a port that did not let our client in. `mechanisms`: those of the login that it
    asks for; empty if it takes none, None if that is not known.
    """

    speech: Speech
    first_bytes: bytes = b""
    mechanisms: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """An address as seen from here.

    `addresses`: those of the name; `unknown`: why there are none. `unreached`: addresses that took
    no connection, with the reasons. `refusal`: why our client was not let in, None if it was;
    `heard`: what listens there then. `serves`: versions by key of requests, and `cluster_id`: of
    which cluster it is, if it said so.
    """

    host: str
    port: int
    addresses: tuple[str, ...] = ()
    unknown: str | None = None
    unreached: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    heard: Heard | None = None
    serves: Mapping[int, Versions] = field(default_factory=dict)
    cluster_id: str | None = None

    @property
    def name(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def lets_in(self) -> bool:
        return self.unknown is None and self.refusal is None and self.is_reached

    @property
    def is_reached(self) -> bool:
        return len(self.unreached) < len(self.addresses)

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of the same machine can mean a broker by it."""
        if self.host == "localhost":
            return True
        return bool(self.addresses) and all(ip_address(each).is_loopback for each in self.addresses)

    @property
    def is_everywhere(self) -> bool:
        """Whether the host is an address to listen on, which nobody can connect to."""
        return self.host in EVERYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A data directory as its broker reports it; sizes of its volume, -1 if not known."""

    path: str
    is_offline: bool
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBroker:
    """A broker at the address that clients are given. `disowned`: the words with which it says that
    it is another broker. `settings` None: it does not say them. `silence`: why it does not answer
    as the controller, which the brokers name it; `makes_topics`: as such it says that it would make
    a topic with the brokers' own numbers of partitions and replicas.
    """

    node_id: int
    door: Door
    disowned: str | None = None
    settings: Mapping[str, str] | None = None
    directories: tuple[Directory, ...] = ()
    silence: str | None = None
    makes_topics: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTopic:
    """A topic: how many partitions, and replicas of each at least."""

    name: str
    replication_factor: int
    partitions: int
    min_insync_replicas: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCluster:
    """The metadata that the first open address gave. `away`: partitions by broker that should hold
    them and is not there; `offline`: partitions by broker that is there and does not serve them.
    """

    cluster_id: str | None
    controller_id: int
    broker_ids: tuple[int, ...]
    topics: tuple[SeenTopic, ...] = ()
    health: PartitionHealth = field(
        default_factory=lambda: PartitionHealth(
            leaderless=frozenset(),
            under_replicated=frozenset(),
            under_min_isr=None,
            reassigning=None,
        )
    )
    away: Mapping[int, tuple[TopicPartition, ...]] = field(default_factory=dict)
    offline: Mapping[int, tuple[TopicPartition, ...]] = field(default_factory=dict)

    @property
    def has_controller(self) -> bool:
        return self.controller_id != NO_CONTROLLER

    def has_topic(self, name: str) -> bool:
        """Say whether there is such a topic, in whatever state."""
        return any(topic.name == name for topic in self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecord:
    """A record on its way through one broker. `refusal`: why it was not written or not read back.
    `ahead_ms`: by how much the broker's clock is ahead of ours, give or take `give_ms`; None if it
    put no time on the record.
    """

    node_id: int
    refusal: str | None = None
    ahead_ms: int | None = None
    give_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A topic of our own that records went through. `refusal`: why it could not be made; `left`:
    why it could not be deleted.
    """

    topic: str
    refusal: str | None = None
    records: tuple[WrittenRecord, ...] = ()
    left: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTrial:
    """A group of our own that was joined. `coordinator`: None if none was found; `refusal`: why it
    could not be joined.
    """

    coordinator: int | None
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """Everything that was seen; parts that were not looked at are empty or None. `protocol`: the
    `security.protocol` that our client was given.
    """

    protocol: str
    doors: tuple[Door, ...]
    cluster: SeenCluster | None = None
    brokers: tuple[SeenBroker, ...] = ()
    latest_ahead_ms: Mapping[str, int] = field(default_factory=dict)
    trial: Trial | None = None
    group: GroupTrial | None = None

    @property
    def settings(self) -> dict[int, Mapping[str, str]]:
        """The settings of the brokers that say them."""
        return {
            broker.node_id: broker.settings
            for broker in self.brokers
            if broker.settings is not None
        }
