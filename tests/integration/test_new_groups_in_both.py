"""Consumer groups of the new protocol in one directory that Apache Kafka 4.3.1 and kbroker serve in
turn: one history of requests gives the same records, and members go on where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from compat_tests.answers.consumer_group_steps import (
    Stage,
    Step,
    beat,
    classic_beat,
    classic_join,
    classic_leave,
    commit,
    delete_group,
    describe,
    fetch,
    join,
    sync,
)
from compat_tests.conftest import BrokerProcess
from compat_tests.running.apache_directories import ApacheBroker
from compat_tests.wire.wire_client import METADATA, WireClient
from kbroker.coordinator.consumer_group.record_reading import SCHEMAS, read_key
from kbroker.coordinator.consumer_group.record_values import RecordKind
from kbroker.protocol.codec import decode, encode
from kbroker.record.record_batch import read_header, records

pytestmark = pytest.mark.java

TARGETS_AT_ONCE = "group.consumer.assignment.interval.ms"
TOPICS = {"t2": 2, "t3": 3, "t6": 6}
VERSION_BYTES = 2

HISTORY: tuple[Step, ...] = (
    join("a", "t6", "t3"),
    beat("a", owned={"t6": [0, 1, 2, 3, 4, 5], "t3": [0, 1, 2]}),
    commit("a", place="t6:1"),
    join("b", "t6", instance_id="i", rack_id="r", server_assignor="range"),
    beat("a"),
    beat("a", owned={"t6": [0, 1, 2], "t3": [0, 1, 2]}),
    beat("b", instance_id="i"),
    commit("b", place="t6:5", instance="i"),
    beat("a", topics=["t2", "t6"]),
    beat("a", owned={"t6": [0, 1, 2], "t2": [0, 1]}),
    beat("b", -2, instance_id="i"),
    join("c", "t6", instance_id="i", rebalance_timeout=60_000),
    beat("c", -1, instance_id="i"),
    beat("a"),
    beat("a", -1),
    delete_group(),
)
CHANGE_OF_PROTOCOL: tuple[Step, ...] = (
    classic_join("c", "t2"),
    sync("c", given="t2"),
    join("a", "t3"),
    classic_beat("c"),
    classic_join("c", "t2"),
    sync("c"),
    classic_beat("c"),
    commit("c", place="t2:0"),
    beat("a"),
    join("b", "t6"),
    beat("b", -1),
    beat("a", -1),
    classic_leave("c"),
    delete_group(),
)
HISTORIES = {"history": HISTORY, "change": CHANGE_OF_PROTOCOL}


class Written(NamedTuple):
    """A record, with what differs from broker to broker, and from run to run, made the same."""

    kind: str
    key: bytes
    value: bytes | None


def stage(bootstrap: str, group: str) -> Stage:
    wire = WireClient(bootstrap)
    wire.wait_for_coordinator(group)
    asked = [{"topic_id": UUID(int=0), "name": topic} for topic in TOPICS]
    answer = wire.call(METADATA, 12, topics=asked)
    return Stage(bootstrap, wire, group, 0, {each.name: each.topic_id for each in answer.topics})


def batches(data: Path, group: str, ids: dict[str, str]) -> list[list[Written]]:
    """The batches of a group's records in `__consumer_offsets`, but for committed offsets and those
    of the classic protocol; ids that were drawn are replaced.
    """
    drawn = {each.encode(): who.encode() * len(each) for who, each in ids.items() if who != each}
    found = []
    for segment in sorted(data.glob("__consumer_offsets-*/*.log")):
        content = segment.read_bytes()
        for position in positions(content):
            named = [
                written(replaced(record.key, drawn) or b"", replaced(record.value, drawn))
                for record in records(content, position)
                if is_of(bytes(record.key or b""), group)
            ]
            if named:
                found.append(sorted(named, key=lambda each: (each.kind, each.key)))
    return found


def positions(content: bytes) -> Iterator[int]:
    position = 0
    while position < len(content):
        header = read_header(content, position)
        if not header.size_bytes:
            return
        if not header.is_control:
            yield position
        position += header.size_bytes


def is_of(key: bytes, group: str) -> bool:
    read = read_key(key)
    return read is not None and read.group_id == group


def replaced(content: Any, drawn: dict[bytes, bytes]) -> bytes | None:
    if content is None:
        return None
    found = bytes(content)
    for each, other in drawn.items():
        found = found.replace(each, other)
    return found


def written(key: bytes, content: bytes | None) -> Written:
    read = read_key(key)
    assert read is not None
    of_any_group = key.replace(read.group_id.encode(), b"(group)")
    if content is None:
        return Written(read.kind.name, of_any_group, None)
    schema = SCHEMAS[RecordKind(read.kind)][1]
    decoded = decode(schema, 0, content, VERSION_BYTES)[0]
    assert content == content[:VERSION_BYTES] + encode(decoded, 0), "every byte is known"
    if hasattr(decoded, "assignment_timestamp"):
        decoded.assignment_timestamp = 0
    for field in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
        for topic in sorted(getattr(decoded, field, ()), key=lambda each: str(each.topic_id)):
            in_order(topic)
        if hasattr(decoded, field):
            getattr(decoded, field).sort(key=lambda each: str(each.topic_id))
    return Written(read.kind.name, of_any_group, encode(decoded, 0))


def in_order(topic: Any) -> None:
    """Put the partitions of an assignment in order: in Apache Kafka they come as in a hash table."""
    epochs = getattr(topic, "assignment_epochs", None)
    pairs = sorted(zip(topic.partitions, epochs or topic.partitions, strict=True))
    topic.partitions[:] = [partition for partition, _ in pairs]
    if epochs:
        epochs[:] = [epoch for _, epoch in pairs]


class Played(NamedTuple):
    """What a history was answered, and the ids of its members."""

    told: list[str]
    ids: dict[str, str]


def play(bootstrap: str, side: str) -> dict[str, Played]:
    """Play all histories, each in a group of its name and the side's."""
    found = {}
    for name, history in HISTORIES.items():
        there = stage(bootstrap, f"{name}-{side}")
        found[name] = Played([step(there) for step in history], there.ids)
        there.wire.close()
    return found


def test_a_directory_goes_from_apache_kafka_to_kbroker_and_back_with_its_new_groups(
    tmp_path: Path,
) -> None:
    apache = ApacheBroker(tmp_path / "data", settings={TARGETS_AT_ONCE: "0"})
    kbroker = BrokerProcess(
        apache.data,
        ("--adopt", f"--override={TARGETS_AT_ONCE}=0",
         f"--override=metadata.log.dir={tmp_path}/data-metadata"),
    )  # fmt: skip
    try:
        apache.start()
        first = WireClient(apache.bootstrap)
        for topic, partitions in TOPICS.items():
            first.create_topic(topic, partitions)
        first.close()
        theirs = play(apache.bootstrap, "a")
        live = stage(apache.bootstrap, "live")
        steps = (join("a", "t6"), join("b", "t6", instance_id="i"), commit("a", place="t6:0"))
        assert [step(live)[0] for step in steps] == ["0", "0", "0"]
        shown = describe()(live)
        live.wire.close()
        apache.stop()

        kbroker.start()
        live.bootstrap, live.wire = kbroker.bootstrap, WireClient(kbroker.bootstrap)
        assert describe()(live) == shown
        assert fetch("a", place="t6:0")(live) == "0 ['0=5 0']"
        assert beat("a")(live) == "0 a e2 5000 t6:0,1,2"
        assert beat("a", owned={"t6": [0, 1, 2]})(live) == "0 a e3 5000 -"
        assert beat("b", instance_id="i")(live) == "0 b e3 5000 t6:3,4,5"
        ours = play(kbroker.bootstrap, "k")
        shown = describe()(live)
        live.wire.close()
        kbroker.stop()
        for name in HISTORIES:
            assert ours[name].told == theirs[name].told
            stored = batches(apache.data, f"{name}-k", ours[name].ids)
            assert stored == batches(apache.data, f"{name}-a", theirs[name].ids)

        apache.start()
        live.bootstrap, live.wire = apache.bootstrap, WireClient(apache.bootstrap)
        live.wire.wait_for_coordinator("live")
        assert describe()(live) == shown
        assert beat("b", instance_id="i", owned={"t6": [3, 4, 5]})(live).startswith("0 b e3 ")
        assert beat("a", -1)(live).startswith("0 ")
        assert beat("b", instance_id="i")(live) == "0 b e4 5000 t6:0,1,2,3,4,5"
        live.wire.close()
    finally:
        for broker in (apache, kbroker):
            if broker.process is not None and broker.process.poll() is None:
                broker.process.kill()
                broker.process.wait()
