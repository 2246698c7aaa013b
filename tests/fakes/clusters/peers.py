"""What a broker knows of others, for handlers without a cluster."""

from __future__ import annotations

from typing import Any

from kbroker.peers.cluster_action import PeerListeners
from kbroker.peers.peers import Peers
from kbroker.zk.nodes.cluster_members import ClusterMembers
from kbroker.zk.tree import Tree

NOTHING: Any = None


def no_peers() -> Peers:
    """Of a broker that is alone."""
    return Peers(PeerListeners(), NOTHING, NOTHING)


def peers_over(tree: Tree, clock: Any, *listeners: str) -> Peers:
    """Of a member of a cluster."""
    return Peers(PeerListeners(frozenset(listeners)), ClusterMembers(tree), clock)
