"""Topics with several replicas in a cluster of processes: made, moved, led by another replica, and
their logs held against each other byte by byte.

Knows nothing of kbroker: what replicas hold is read from their files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from compat_tests.cluster.model import UNREACHABLE
from compat_tests.cluster.processes import Cluster
from compat_tests.running.waiting import until
from compat_tests.wire.wire_client import CREATE_TOPICS, FIND_COORDINATOR, code

ELECT_LEADERS, ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS = 43, 45, 46
PREFERRED = 0
GROUP, TRANSACTION = 0, 1  # types of keys that have a coordinator
IN_SYNC_WITHIN_S = 30.0
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",  # leaders move where a test says so
    "unclean.leader.election.enable": "false",
}


def create(cluster: Cluster, topic: str, *replicas: Sequence[int], **configs: str) -> None:
    """Create a topic whose partition N has the N-th replicas named, and wait until all of them are
    in sync and every running broker names the first as leader.
    """
    wanted = {
        "name": topic, "num_partitions": -1, "replication_factor": -1,
        "assignments": [
            {"partition_index": n, "broker_ids": ids} for n, ids in enumerate(replicas)
        ],
        "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
    }  # fmt: skip
    with cluster.wire(cluster.controller_id()) as wire:
        said = wire.call(CREATE_TOPICS, 5, topics=[wanted], timeout=20_000).topics[0]
    assert code(said.error_code, said.error_message) == "0"
    await_in_sync(cluster, topic)
    cluster.wait_for_leaders(topic, {n: ids[0] for n, ids in enumerate(replicas)})


def await_in_sync(cluster: Cluster, *topics: str) -> None:
    """Return when every replica of the topics is in sync; AssertionError after 30 s."""

    def lacking() -> dict[str, object]:
        found: dict[str, object] = {}
        for topic in topics:
            for number, replicas in (cluster.tree.assignment(topic) or {}).items():
                state = cluster.tree.partition_state(topic, number)
                if state is None or state.leader < 0 or set(state.isr) != set(replicas):
                    found[f"{topic}-{number}"] = (replicas, state)
        return found

    last: list[object] = [None]

    def is_full() -> bool:
        last[0] = lacking()
        return not last[0]

    try:
        until(is_full, timeout_s=IN_SYNC_WITHIN_S)
    except AssertionError:
        raise AssertionError(f"not in sync after {IN_SYNC_WITHIN_S} s: {last[0]}") from None


def coordinator(cluster: Cluster, key: str, through: int, key_type: int = GROUP) -> int:
    """The coordinator of a group or a transactional id as one broker tells it; -1 for none."""
    with cluster.wire(through) as wire:
        answer = wire.call(FIND_COORDINATOR, 1, key=key, key_type=key_type)
    return int(answer.node_id) if answer.error_code == 0 else -1


def await_coordinator(cluster: Cluster, key: str, key_type: int = GROUP) -> int:
    """Wait until a key has a coordinator; asking makes the topic that keeps it."""
    return until(
        lambda: max(coordinator(cluster, key, cluster.ids[0], key_type), 0), f"{key} is served"
    )


def await_leaders_without(cluster: Cluster, topic: str, victim: int) -> None:
    """Return when every broker that runs tells clients of another leader than the victim, of every
    partition.
    """

    def is_led() -> bool:
        asked = [b for b in cluster.ids if cluster.is_running(b) and b not in cluster.paused]
        try:
            told = [set(cluster.leaders_told(b, topic).values()) for b in asked if b != victim]
        except UNREACHABLE:
            return False
        return bool(told) and all(leaders and not {victim, -1} & leaders for leaders in told)

    until(is_led, f"{topic} led without broker {victim}")


def await_same_logs(cluster: Cluster, *topics: str) -> int:
    """Return, once nothing is written any more, how many bytes all replicas have alike.

    AssertionError names the first partition that differs, and where.
    """
    total = 0
    for topic in topics:
        for number, replicas in (cluster.tree.assignment(topic) or {}).items():
            total += _await_same(cluster, f"{topic}-{number}", replicas)
    return total


def _await_same(cluster: Cluster, partition: str, replicas: Sequence[int]) -> int:
    def differing() -> dict[int, bytes] | None:
        logs = {b: log_bytes(cluster, b, partition) for b in replicas}
        return logs if len(set(logs.values())) > 1 else None

    try:
        until(lambda: differing() is None, timeout_s=IN_SYNC_WITHIN_S)
    except AssertionError:
        logs = differing()
        assert logs is None, f"{partition}: {_told(logs)}"
    return len(log_bytes(cluster, replicas[0], partition))


def log_bytes(cluster: Cluster, broker_id: int, partition: str) -> bytes:
    """All records of a replica as they lie on the disk: segments may begin at different offsets."""
    folder: Path = cluster.brokers[broker_id].data / partition
    while True:
        try:
            return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        except FileNotFoundError:  # cleaned or deleted since it was listed
            continue


def _told(logs: Mapping[int, bytes]) -> str:
    sizes = {broker_id: len(log) for broker_id, log in logs.items()}
    shortest = min(sizes.values())
    values = list(logs.values())
    first = next((n for n in range(shortest) if len({log[n] for log in values}) > 1), shortest)
    around = {b: log[max(first - 80, 0) : first + 80].hex() for b, log in logs.items()}
    return f"sizes {sizes}, alike up to byte {first}, around it {around}"


def elect_preferred(cluster: Cluster, topic: str, *partitions: int) -> None:
    """Give the partitions back to their first replicas, which must be in sync."""
    wanted = [{"topic": topic, "partitions": partitions}]

    def elect() -> list[str]:
        with cluster.wire(cluster.controller_id()) as wire:
            answer = wire.call(
                ELECT_LEADERS, 2, election_type=PREFERRED, topic_partitions=wanted, timeout=5_000
            )
        assert answer.error_code == 0, code(answer.error_code)
        results = answer.replica_election_results[0].partition_result
        # 84: its first replica leads already
        return [
            code(each.error_code, each.error_message)
            for each in results
            if each.error_code not in (0, 84)
        ]

    refused = elect()
    if refused and {said.split()[0] for said in refused} == {"7"}:  # the news of it are late
        refused = elect()
    assert refused == []


def reassign(cluster: Cluster, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Move partitions to other replicas; returns when that is done."""
    wanted = {
        "name": topic,
        "partitions": [{"partition_index": n, "replicas": ids} for n, ids in replicas.items()],
    }
    with cluster.wire(cluster.controller_id()) as wire:
        answer = wire.call(ALTER_PARTITION_REASSIGNMENTS, 0, timeout=20_000, topics=[wanted])
    assert answer.error_code == 0, code(answer.error_code, answer.error_message)
    for said in answer.responses[0].partitions:
        assert code(said.error_code, said.error_message) == "0"
    until(lambda: not _moving(cluster), "nothing moves any more")
    now = cluster.tree.assignment(topic) or {}
    assert {n: now[n] for n in replicas} == {n: list(ids) for n, ids in replicas.items()}


def _moving(cluster: Cluster) -> bool:
    try:
        with cluster.wire(cluster.controller_id()) as wire:
            answer = wire.call(LIST_PARTITION_REASSIGNMENTS, 0, timeout=20_000, topics=None)
    except UNREACHABLE:
        return True
    return bool(answer.error_code != 0 or answer.topics)
