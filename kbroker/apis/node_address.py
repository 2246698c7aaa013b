"""The address of a broker in answers to a client.

A listener has its advertised address, if one was configured. A listener without one (host "" or a
wildcard) is announced under the address by which this very client reached us: that one works for
it, after any forwarding.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kbroker.ip_addresses import EVERYWHERE, unmapped
from kbroker.model import Broker, EndPoint, TopicPartition
from kbroker.protocol.request import ConnectionInfo
from kbroker.replication.metadata_cache import MetadataCache

_EVERYWHERE = EVERYWHERE | {"*"}


class LeaderHint(NamedTuple):
    """The leader of a partition: a hint to a client that asked the wrong broker (KIP-951)."""

    leader_id: int
    leader_epoch: int


def node_address(connection: ConnectionInfo, broker: Broker) -> tuple[str, int]:
    """Host and port of `broker` for a client; ("", -1) without its listener."""
    for end_point in broker.end_points:
        if end_point.listener_name == connection.listener_name:
            return _address(connection, end_point)
    return "", -1


def _address(connection: ConnectionInfo, end_point: EndPoint) -> tuple[str, int]:
    if end_point.host not in _EVERYWHERE:
        return end_point.host, end_point.port
    return unmapped(connection.local_host), end_point.port or connection.local_port


def reachable_brokers(
    connection: ConnectionInfo, metadata: MetadataCache
) -> list[tuple[Broker, str, int]]:
    """The live brokers that have the listener of this connection, with their address for it."""
    found = [(broker, *node_address(connection, broker)) for broker in metadata.alive_brokers()]
    return [entry for entry in found if entry[2] >= 0]


def leader_hint(metadata: MetadataCache, topic_partition: TopicPartition) -> LeaderHint:
    """Leader and epoch as the controller announced them, -1 both when the partition is unknown."""
    state = metadata.partition_state(topic_partition)
    return LeaderHint(-1, -1) if state is None else LeaderHint(state.leader, state.leader_epoch)


def leader_addresses(
    connection: ConnectionInfo, metadata: MetadataCache, leader_ids: Iterable[int]
) -> list[tuple[Broker, str, int]]:
    """The addresses of leaders that have been named in hints, each once."""
    wanted = set(leader_ids)
    return [
        entry for entry in reachable_brokers(connection, metadata) if entry[0].broker_id in wanted
    ]
