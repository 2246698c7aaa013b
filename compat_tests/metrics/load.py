"""The same requests to either cluster: so many of each, in versions that brokers do not use among
themselves, with the same bytes in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

from compat_tests.cluster.processes import Cluster
from compat_tests.running.waiting import until
from compat_tests.wire import old_versions
from compat_tests.wire.group_member import Member
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import (
    CREATE_TOPICS,
    DESCRIBE_GROUPS,
    FETCH,
    FIND_COORDINATOR,
    LIST_GROUPS,
    LIST_OFFSETS,
    METADATA,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PRODUCE,
    WireClient,
    code,
    fetch_fields,
    produce_fields,
)

TOPICS = {"orders": 3, "clicks": 2}  # with that many partitions
ALONE = "clicks"  # with one replica each: a coordinator elsewhere has to ask for their ends
AGED = "aged"  # of one partition, which is written and read in an old format
GROUP = "readers"
ROUNDS = 8
RECORDS, VALUE_BYTES = 5, 100
COMMITTED = 7
WAIT_MS = 30
TIME_MS = 1_700_000_000_000  # of each record


class Place(NamedTuple):
    """A partition, and the broker that leads it."""

    topic: str
    partition: int
    leader: int


class Load:
    """What one cluster is asked, and how often. `prepare` comes first: it repeats what is not there
    yet.
    """

    def __init__(self, cluster: Cluster, rounds: int = ROUNDS) -> None:
        self._cluster = cluster
        self._rounds = rounds
        ids = cluster.ids
        self.places = [
            Place(topic, number, ids[number % len(ids)])
            for topic, partitions in TOPICS.items()
            for number in range(partitions)
        ]
        self._aged = Place(AGED, 0, ids[0])

    def prepare(self) -> None:
        """Create topics and the coordinator's, and wait for all."""
        cluster = self._cluster
        with cluster.wire(cluster.controller_id()) as wire:
            for topic in (*TOPICS, AGED):
                answer = wire.call(CREATE_TOPICS, 5, topics=[self._wanted(topic)], timeout=20_000)
                assert code(answer.topics[0].error_code, answer.topics[0].error_message) == "0"
        for topic in (*TOPICS, AGED):
            leaders = {each.partition: each.leader for each in self._of(topic)}
            cluster.wait_for_leaders(topic, leaders)
        with closing(WireClient(cluster.address(self.coordinator()))) as wire:
            wire.wait_for_coordinator(GROUP)

    def _of(self, topic: str) -> list[Place]:
        return [each for each in (*self.places, self._aged) if each.topic == topic]

    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        with self._cluster.wire(self._cluster.ids[0]) as wire:
            return until(lambda: self._coordinator(wire), "a coordinator")

    def _coordinator(self, wire: WireClient) -> int | None:
        answer = wire.call(FIND_COORDINATOR, 2, key=GROUP, key_type=0)
        return None if answer.error_code.value else int(answer.node_id)

    def _wanted(self, topic: str) -> dict[str, Any]:
        ids = self._cluster.ids if topic != ALONE else []
        assignments = [
            {"partition_index": each.partition,
             "broker_ids": [each.leader, *(other for other in ids if other != each.leader)]}
            for each in self._of(topic)
        ]  # fmt: skip
        return {"name": topic, "num_partitions": -1, "replication_factor": -1,
                "assignments": assignments, "configs": []}  # fmt: skip

    def run(self) -> None:
        """Write, read, commit and ask, and some of what is refused."""
        coordinator = self.coordinator()
        with self._wires() as wires:
            for _ in range(self._rounds):
                for place in self.places:
                    self._write_and_read(wires[place.leader], place)
            for place in self.places:
                self._wait_for_records(wires[place.leader], place)
            self._write_and_read_aged(wires[self._aged.leader])
            for wire in wires.values():
                self._ask(wire)
            self._be_refused(next(iter(wires.values())))
            self._commit(wires[coordinator])

    @contextmanager
    def _wires(self) -> Iterator[dict[int, WireClient]]:
        with ExitStack() as stack:
            yield {
                number: stack.enter_context(self._cluster.wire(number))
                for number in self._cluster.ids
            }

    def _write_and_read(self, wire: WireClient, place: Place) -> None:
        records = batch(RECORDS, VALUE_BYTES, timestamp_ms=TIME_MS)
        for acks in (1, -1):
            fields = produce_fields(place.topic, [(place.partition, records)], acks=acks)
            answer = wire.call(PRODUCE, 7, **fields)
            assert not answer.responses[0].partition_responses[0].error_code.value
        fields = fetch_fields(place.topic, 0)
        fields["topics"][0]["partitions"][0]["partition"] = place.partition
        read = wire.call(FETCH, 11, **fields).responses[0].partitions[0]
        assert read.records

    def _wait_for_records(self, wire: WireClient, place: Place) -> None:
        fields = {**fetch_fields(place.topic, _end(wire, place)), "max_wait": WAIT_MS}
        fields["topics"][0]["partitions"][0]["partition"] = place.partition
        wire.call(FETCH, 11, **fields)

    def _write_and_read_aged(self, wire: WireClient) -> None:
        records = old_versions.message_set(old_versions.Message(timestamp_ms=TIME_MS))
        for _ in range(self._rounds):
            assert not old_versions.produce(wire, 2, AGED, records).error_code
            assert old_versions.fetch(wire, 2, AGED, 0)[0].records

    def _ask(self, wire: WireClient) -> None:
        for _ in range(self._rounds):
            wire.call(METADATA, 7, topics=[{"name": "orders"}], allow_auto_topic_creation=False)
            wire.call(LIST_GROUPS, 1)
            wire.call(FIND_COORDINATOR, 1, key=GROUP, key_type=0)

    def _be_refused(self, wire: WireClient) -> None:
        for _ in range(self._rounds):
            answer = wire.call(PRODUCE, 6, **produce_fields("none", [(0, batch())], acks=1))
            assert answer.responses[0].partition_responses[0].error_code.value
            wire.call(METADATA, 6, topics=[{"name": "none"}], allow_auto_topic_creation=False)
            wanted = [{"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}]
            topics = [{"name": "none", "partitions": wanted}]
            wire.call(LIST_OFFSETS, 5, replica_id=-1, topics=topics)

    def _commit(self, wire: WireClient) -> None:
        member = Member(wire, GROUP).join_and_sync()
        for _ in range(self._rounds):
            assert member.heartbeat() == "0"
        topics = [
            {"name": topic, "partitions": [
                {"partition_index": each.partition, "committed_offset": COMMITTED,
                 "committed_leader_epoch": -1, "committed_metadata": ""}
                for each in self.places if each.topic == topic]}
            for topic in TOPICS
        ]  # fmt: skip
        identity = member.identity()
        identity["generation_id_or_member_epoch"] = identity.pop("generation_id")
        answer = wire.call(OFFSET_COMMIT, 7, **identity, topics=topics)
        assert not any(p.error_code.value for t in answer.topics for p in t.partitions)
        wire.call(DESCRIBE_GROUPS, 3, groups=[GROUP], include_authorized_operations=False)

    def lags(self) -> dict[tuple[str, str, str], int]:
        """The group's lag as its clients see it: the end of each partition, less what is
        committed.
        """
        found = {}
        with self._cluster.wire(self.coordinator()) as wire:
            topics = [{"name": topic, "partition_indexes": list(range(count))}
                      for topic, count in TOPICS.items()]  # fmt: skip
            answer = wire.call(OFFSET_FETCH, 5, group_id=GROUP, topics=topics)
            committed = {
                (t.name, p.partition_index): p.committed_offset
                for t in answer.topics
                for p in t.partitions
            }
        for place in self.places:
            with self._cluster.wire(place.leader) as wire:
                end = _end(wire, place)
            key = GROUP, place.topic, str(place.partition)
            found[key] = end - committed[place.topic, place.partition]
        return found


def _end(wire: WireClient, place: Place) -> int:
    text = wire.list_offsets(place.topic, -1, partition=place.partition)
    return int(text.partition("offset=")[2].split()[0])
