"""Two replicas that have lost sight of each other: one goes on without the other and loses what it
wrote to an unclean election, or deletes records that the other has not read yet.
"""

from __future__ import annotations

import random

from compat_tests.cluster.model import UNREACHABLE
from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    await_in_sync,
    await_same_logs,
    create,
    elect_preferred,
    log_bytes,
    reassign,
)
from compat_tests.running.waiting import until
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import code

DELETE_RECORDS = 21
EARLIEST = -2
LARGE_BYTES = 2_000_000  # more than a follower asks for of one partition


def diverge(cluster: Cluster, topic: str, first: int, second: int, draw: random.Random) -> None:
    """Both write, each without the other; the first one's records are cut off. Then both have the
    same bytes.
    """
    create(
        cluster, topic, [first, second], min_insync_replicas="1", segment_bytes="3000000",
        unclean_leader_election_enable="true", max_message_bytes="5000000",
    )  # fmt: skip
    _write(cluster, first, topic, draw.randint(1, 20))
    await_in_sync(cluster, topic)
    cluster.kill(second)
    _await_isr(cluster, topic, first)
    _write(cluster, first, topic, draw.randint(1, 40), LARGE_BYTES)
    cluster.kill(first)
    until(lambda: first not in cluster.tree.broker_ids(), f"{first} is gone")
    cluster.start(second)
    _await_isr(cluster, topic, second)
    _write(cluster, second, topic, draw.randint(1, 40), draw.choice([100, LARGE_BYTES]))
    cluster.start(first)
    await_in_sync(cluster, topic)
    _write(cluster, second, topic, 5)
    await_same_logs(cluster, topic)


def fall_behind(cluster: Cluster, topic: str, first: int, second: int, draw: random.Random) -> None:
    """The first deletes records that the second has missed; both begin at the same offset then."""
    create(
        cluster, topic, [first, second], min_insync_replicas="1", segment_bytes="20000",
        max_message_bytes="5000000",
    )  # fmt: skip
    _write(cluster, first, topic, draw.randint(1, 20))
    await_in_sync(cluster, topic)
    cluster.kill(second)
    _await_isr(cluster, topic, first)
    _write(cluster, first, topic, draw.randint(40, 80))
    start = draw.randint(100, 150)
    _delete_records(cluster, first, topic, start)
    cluster.start(second)
    await_in_sync(cluster, topic)
    _write(cluster, first, topic, 5)
    _await_equal_ends(cluster, topic, first, second)
    later = start + draw.randint(1, 20)
    _delete_records(cluster, first, topic, later)
    reassign(cluster, topic, {0: [second, first]})
    elect_preferred(cluster, topic, 0)
    cluster.wait_for_leaders(topic, {0: second})
    with cluster.wire(second) as wire:
        assert f" offset={later} " in wire.list_offsets(topic, EARLIEST)
    _write(cluster, second, topic, 5)
    _await_equal_ends(cluster, topic, first, second)


def _write(cluster: Cluster, leader: int, topic: str, count: int, largest: int = 0) -> None:
    """Batches of five records; one batch with a large one, where that is asked for."""
    cluster.wait_for_leaders(topic, {0: leader})
    with cluster.wire(leader) as wire:
        for number in range(count):
            value_bytes = largest if largest and number == count // 2 else 500 + number
            records = batch(1 if value_bytes == largest else 5, value_bytes)
            # The leader may not know yet that it leads.
            until(lambda r=records: wire.produce(topic, r).startswith("0;"), f"{topic} is written")


def _await_isr(cluster: Cluster, topic: str, alone: int) -> None:
    def is_alone() -> bool:
        state = cluster.tree.partition_state(topic, 0)
        return state is not None and (state.leader, state.isr) == (alone, (alone,))

    until(is_alone, f"{topic} is led by {alone} alone")


def _delete_records(cluster: Cluster, leader: int, topic: str, offset: int) -> None:
    partitions = [{"partition_index": 0, "offset": offset}]

    def is_deleted() -> bool:
        try:
            with cluster.wire(leader) as wire:
                answer = wire.call(
                    DELETE_RECORDS, 1, timeout=20_000,
                    topics=[{"name": topic, "partitions": partitions}],
                )  # fmt: skip
        except UNREACHABLE:
            return False
        (told,) = answer.topics[0].partitions
        assert told.error_code in (0, 6, 7), code(told.error_code)
        return bool(told.error_code == 0)

    until(is_deleted, f"records of {topic} are deleted")


def _await_equal_ends(cluster: Cluster, topic: str, *replicas: int) -> None:
    """One may begin earlier than the other, in a segment that has records before the log's start."""

    def are_equal() -> bool:
        logs = sorted((log_bytes(cluster, b, f"{topic}-0") for b in replicas), key=len)
        return bool(logs[0]) and all(log.endswith(logs[0]) for log in logs)

    until(are_equal, f"{topic} ends with the same bytes everywhere")
