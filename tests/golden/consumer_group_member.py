"""Lets members of a consumer group (KIP-848) join under ids of their own, and leave it at that: they
stay for as long as their session lasts. With a minus before its id a member leaves.

    python -m tests.golden.consumer_group_member BROKER GROUP TOPIC [-]MEMBER...
"""

from __future__ import annotations

import sys

from kbroker.cli.arguments.connection import cluster_links
from kbroker.client.cluster_requests import ask_coordinator
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

_REBALANCE_MS = 30_000
_LEFT = -1


def send(bootstrap: str, group: str, topic: str, members: list[str]) -> None:
    """Send a heartbeat of one after the other; those who join do so within the time in which the
    coordinator computes no other target.
    """
    with cluster_links(bootstrap) as links:
        for member in members:
            leaves = member.startswith("-")
            request = ConsumerGroupHeartbeatRequest(
                group_id=group, member_id=member.removeprefix("-"), member_epoch=_LEFT
            )
            if not leaves:
                request.member_epoch = 0
                request.rebalance_timeout_ms = _REBALANCE_MS
                request.subscribed_topic_names = [topic]
                request.topic_partitions = []
            _, answer = ask_coordinator(links, group, request)
            assert answer.error_code == 0, answer.error_message


if __name__ == "__main__":
    send(*sys.argv[1:4], sys.argv[4:])
