"""What two brokers answer about partitions that both have: while both live, after one was killed,
when it is back, and after the other has stopped.

Each row is a question of a table that two Apache Kafka 3.9.2 brokers have answered, under its number
there, and its answer; `--target kafka` asks them again. A is the controller, with rack `ra`, and B
the other broker, with rack `rb`. The topic has partition 0 on A and B and partition 1 on B and A;
two others have their only replica on A and on B. The rows that need no second replica are in
`test_cluster_requests`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from compat_tests.cluster.processes import Cluster
from compat_tests.cluster.replicas import (
    ALTER_PARTITION_REASSIGNMENTS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    await_in_sync,
    create,
)
from compat_tests.running.waiting import until
from compat_tests.running.zookeeper_servers import ZooKeeperServers
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import METADATA, WireClient, code

A, B = 1, 2
TOPIC, ON_A, ON_B = "two-replicas", "on-a-alone", "on-b-alone"
RECORD = batch()
SIZE = len(RECORD)
SETTINGS = {
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "auto.leader.rebalance.enable": "false",  # a new controller looks after 5 s, however far we are
}
PREFERRED, UNCLEAN = 0, 1
ALL = -1
UPDATE_FEATURES = 57

# number: (answer of Apache Kafka 3.9.2, kbroker's where it is another)
ANSWERS: dict[str, tuple[str, str | None]] = {
    "8 a reassignment asked of B": (
        "41 NOT_CONTROLLER []",
        "0 ['85 NO_REASSIGNMENT_IN_PROGRESS']",
    ),
    "9 the reassignments asked of B": ("41 NOT_CONTROLLER", "0"),
    "16 a feature's level asked of B": (
        "41 NOT_CONTROLLER (This is not the correct controller for this cluster.)",
        None,
    ),
    "22 a consumer's fetch 11 from the follower": (f"0 hw=1 records={SIZE} preferred=-1", None),
    "23 a consumer's fetch 12 from the follower": (f"0 hw=1 records={SIZE} preferred=-1", None),
    "24 a fetch from the leader, of a consumer near B": (f"0 hw=1 records=0 preferred={B}", None),
    "41 metadata": (
        "brokers [1, 2]; 0 leader=1 epoch=0 [1, 2] isr [1, 2] offline []; "
        "0 leader=2 epoch=0 [2, 1] isr [2, 1] offline []",
        None,
    ),
    "42 acks=all just after B was killed": (
        "7 REQUEST_TIMED_OUT; base_offset=1; log_append_time=-1; log_start=0",
        None,
    ),
    "43 metadata after B was killed": (
        "brokers [1]; 0 leader=1 epoch=1 [1, 2] isr [1] offline [2]; "
        "0 leader=1 epoch=1 [2, 1] isr [1] offline [2]",
        None,
    ),
    "45 acks=all with too few in sync": (
        "19 NOT_ENOUGH_REPLICAS; base_offset=-1; log_append_time=-1; log_start=0",
        None,
    ),
    "46 acks=1 then": ("0; base_offset=2; log_append_time=-1; log_start=0", None),
    "47 a fetch then": (f"0 hw=1 records={SIZE} preferred=-1", None),
    "51 elections where B would lead": (
        "80 PREFERRED_LEADER_NOT_AVAILABLE, 83 ELIGIBLE_LEADERS_NOT_AVAILABLE",
        None,
    ),
    "54 a move to B": (
        "0 ['39 INVALID_REPLICA_ASSIGNMENT (Replica assignment has brokers that are not alive. "
        "Replica list: ArrayBuffer(2), live broker list: Set(1))']",
        None,
    ),
    "56 metadata when B is back": (
        "brokers [1, 2]; 0 leader=1 epoch=1 [1, 2] isr [1, 2] offline []; "
        "0 leader=1 epoch=1 [2, 1] isr [1, 2] offline []",
        None,
    ),
    "57 what B and A have then": (
        f"0 hw=3 records={3 * SIZE} preferred=-1 / 0 hw=3 records={3 * SIZE} preferred=-1",
        None,
    ),
    # Without epochs: A, which follows for a moment, may be back in sync when its session ends.
    "58 metadata after A has stopped": (
        "brokers [2]; 0 leader=2 [1, 2] isr [2] offline [1]; 0 leader=2 [2, 1] isr [2] offline [1]",
        None,
    ),
}


class Story:
    """What happens to the two, and what they answer; `answers` by question."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.answers: dict[str, str] = {}

    def tell(self) -> None:
        cluster = self._cluster
        with cluster.wire(A) as at_a:
            with cluster.wire(B) as at_b:
                self._both_live(at_a, at_b)
                cluster.kill(B)
            self._b_is_dead(at_a)
            cluster.start(B)
            await_in_sync(cluster, TOPIC)
            with cluster.wire(B) as at_b:
                self._b_is_back(at_a, at_b)
        cluster.stop(A)
        with cluster.wire(B) as at_b:
            self._settles(
                "58 metadata after A has stopped",
                lambda: re.sub(r"epoch=\d+ ", "", metadata(at_b)),
            )

    def _both_live(self, at_a: WireClient, at_b: WireClient) -> None:
        create(self._cluster, TOPIC, [A, B], [B, A], min_insync_replicas="2")
        self._cluster.create_topic(ON_A, A)
        self._cluster.create_topic(ON_B, B)
        assert at_a.produce(TOPIC, RECORD, acks=ALL, timeout=10_000).startswith("0;")
        self._settles("22 a consumer's fetch 11 from the follower", lambda: fetched(at_b, 11))
        note = self.answers
        note["8 a reassignment asked of B"] = reassigned(at_b, TOPIC, None)
        listed = at_b.call(LIST_PARTITION_REASSIGNMENTS, 0, timeout=10_000, topics=None)
        note["9 the reassignments asked of B"] = code(listed.error_code)
        update = {"feature": "nope", "max_version_level": 1, "upgrade_type": 1}
        refused = at_b.call(UPDATE_FEATURES, 1, timeout=10_000, feature_updates=[update])
        note["16 a feature's level asked of B"] = code(refused.error_code, refused.error_message)
        note["23 a consumer's fetch 12 from the follower"] = fetched(at_b, 12)
        near_b = fetched(at_a, 11, rack_id="rb")
        note["24 a fetch from the leader, of a consumer near B"] = near_b
        note["41 metadata"] = metadata(at_a)

    def _b_is_dead(self, at_a: WireClient) -> None:
        note = self.answers
        note["42 acks=all just after B was killed"] = at_a.produce(
            TOPIC, RECORD, acks=ALL, timeout=600
        )
        self._settles("43 metadata after B was killed", lambda: metadata(at_a))
        note["45 acks=all with too few in sync"] = at_a.produce(
            TOPIC, RECORD, acks=ALL, timeout=600
        )
        note["46 acks=1 then"] = at_a.produce(TOPIC, RECORD, acks=1, timeout=600)
        note["47 a fetch then"] = fetched(at_a, 11)
        elections = elected(at_a, PREFERRED, TOPIC, 1), elected(at_a, UNCLEAN, ON_B, 0)
        note["51 elections where B would lead"] = ", ".join(elections)
        note["54 a move to B"] = reassigned(at_a, ON_A, [B])

    def _b_is_back(self, at_a: WireClient, at_b: WireClient) -> None:
        self._settles("56 metadata when B is back", lambda: metadata(at_a))
        self._settles(
            "57 what B and A have then", lambda: f"{fetched(at_b, 11)} / {fetched(at_a, 11)}"
        )

    def _settles(self, question: str, ask: Callable[[], str]) -> None:
        """The answer once it is the expected one; the last one where it never is."""
        last = ""

        def is_so() -> bool:
            nonlocal last
            last = ask()
            return last == ANSWERS[question][0]

        with suppress(AssertionError):
            until(is_so, question, timeout_s=30)
        self.answers[question] = last


def fetched(wire: WireClient, version: int, **values: Any) -> str:
    part = wire.fetch(TOPIC, 0, version, **values)
    size = len(part.records or b"")
    preferred = part.preferred_read_replica
    return f"{code(part.error_code)} hw={part.high_watermark} records={size} preferred={preferred}"


def metadata(wire: WireClient) -> str:
    topics = [{"name": TOPIC}]
    answer = wire.call(METADATA, 9, topics=topics, allow_auto_topic_creation=False)
    told = [
        f"{code(p.error_code)} leader={p.leader_id} epoch={p.leader_epoch} "
        f"{list(p.replica_nodes)} isr {list(p.isr_nodes)} offline {list(p.offline_replicas)}"
        for p in sorted(answer.topics[0].partitions, key=lambda p: p.partition_index)
    ]
    brokers = sorted(b.node_id for b in answer.brokers)
    return "; ".join([f"brokers {brokers}", *told])


def reassigned(wire: WireClient, topic: str, replicas: list[int] | None) -> str:
    """Ask to move partition 0; None cancels."""
    asked = {"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}
    answer = wire.call(ALTER_PARTITION_REASSIGNMENTS, 0, timeout=10_000, topics=[asked])
    told = [code(p.error_code, p.error_message) for t in answer.responses for p in t.partitions]
    # Only what was done wrong has a sentence that matters.
    told = [text.partition(" (No ")[0] for text in told]
    return f"{code(answer.error_code)} {told}"


def elected(wire: WireClient, kind: int, topic: str, partition: int) -> str:
    asked = [{"topic": topic, "partitions": [partition]}]
    answer = wire.call(ELECT_LEADERS, 1, election_type=kind, topic_partitions=asked, timeout=10_000)
    (result,) = answer.replica_election_results[0].partition_result
    return code(result.error_code)


@pytest.fixture(scope="module")
def answers(
    kind: str, zookeeper: ZooKeeperServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("two")
    with Cluster(folder, zookeeper, [kind] * 2, SETTINGS, chroot="/two-brokers") as cluster:
        cluster.set_up(A, broker_rack="ra")
        cluster.set_up(B, broker_rack="rb")
        cluster.start(A)
        cluster.start(B)
        story = Story(cluster)
        story.tell()
        yield story.answers


@pytest.mark.parametrize("question", ANSWERS)
def test_two_brokers_answer_as_those_of_the_table(
    question: str, answers: dict[str, str], either: Callable[[str, str], str]
) -> None:
    kafka, own = ANSWERS[question]

    assert answers[question] == either(own or kafka, kafka)
