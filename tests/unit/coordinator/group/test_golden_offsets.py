"""What Kafka wrote into __consumer_offsets, read and written again."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.coordinator.consumer_group.record_reading import SCHEMAS
from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.offsets import NO_LEADER_EPOCH, CommittedOffset
from kbroker.coordinator.group.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    group_metadata,
    offset_commit_key,
    offset_commit_value,
    read_group_metadata,
    read_key,
    read_offset_commit_value,
)
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.group.unserved_records import OF_CONSUMER_GROUPS
from kbroker.coordinator.runtime.batch_append import METADATA_BATCH, OFFSET_BATCH
from kbroker.coordinator.runtime.partition_replay import PartitionReplay
from kbroker.coordinator.runtime.versioned_record import versioned
from kbroker.coordinator.transaction.producer import Producer
from kbroker.model import GROUP_METADATA_TOPIC, ZERO_UUID, TopicPartition
from kbroker.record.record_batch import (
    BatchOptions,
    Record,
    assign_offset,
    build,
    read_header,
    records,
)
from tests.fakes.brokers.group_broker import GroupBroker, OffsetsLog
from tests.fakes.running.virtual_time import VirtualTime

GOLDEN = Path(__file__).parents[3] / "golden" / "groups"
VERSIONS = ("3.9.2", "4.3.1")


def log_bytes(version: str, partition: int) -> bytes:
    return gzip.decompress((GOLDEN / f"consumer-offsets-{version}-{partition}.log.gz").read_bytes())


def replayed(version: str) -> tuple[dict[str, Group], Counter[str]]:
    """The groups, and how many records of which kinds were kept for others."""
    replay, kept = GroupReplay(), Counter()
    for partition in range(3):
        log = OffsetsLog(log_bytes(version, partition))
        reading = PartitionReplay(TopicPartition(GROUP_METADATA_TOPIC, partition), log, replay)
        for _ in reading.steps():
            pass
        assert not reading.not_understood
        kept += reading.kept
    return {group.group_id: group for group in replay.groups()}, kept


def expected(version: str) -> list[dict]:
    lines = (GOLDEN / f"consumer-offsets-{version}.expected.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def is_classic(group_id: str) -> bool:
    return "848" not in group_id


@pytest.mark.parametrize("version", VERSIONS)
def test_replay_finds_the_groups_that_the_running_broker_listed(version: str) -> None:
    groups, _ = replayed(version)

    found = {
        (group_id, group.state.value, group.is_simple)
        for group_id, group in groups.items()
        if is_classic(group_id)
    }

    # A transaction in the open keeps g-txn-open; g-gone was deleted.
    assert found == {
        (row["group"], row["state"], row["simple"])
        for row in expected(version)
        if row["kind"] == "group" and is_classic(row["group"])
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_replay_finds_the_offsets_that_the_running_broker_answered(version: str) -> None:
    groups, _ = replayed(version)

    found = {
        (group_id, *partition, value.offset, value.leader_epoch, value.metadata)
        for group_id, group in groups.items()
        for partition, value in group.offsets.committed.items()
    }

    assert found == {
        (
            row["group"],
            row["topic"],
            row["partition"],
            row["offset"],
            NO_LEADER_EPOCH if row["leader_epoch"] is None else row["leader_epoch"],
            row["metadata"],
        )
        for row in expected(version)
        if row["kind"] == "committed"
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_an_open_transaction_leaves_its_offset_unstable(version: str) -> None:
    groups, _ = replayed(version)

    pending = groups["g-txn-open"].offsets.pending

    assert len(pending) == 1


def test_records_of_the_consumer_protocol_are_kept_and_counted_where_they_are_not_served() -> None:
    _, of_3_9 = replayed("3.9.2")
    _, of_4_3 = replayed("4.3.1")

    assert not of_3_9
    assert set(of_4_3) <= set(OF_CONSUMER_GROUPS.values())
    assert of_4_3["ConsumerGroupMetadata"] > 0


def test_the_kinds_of_consumer_groups_are_those_that_are_read_where_they_are_served() -> None:
    layouts = {int(kind): f"{key.__name__}" for kind, (key, _) in SCHEMAS.items()}

    assert {kind: f"{name}Key" for kind, name in OF_CONSUMER_GROUPS.items()} == layouts


@pytest.mark.parametrize("partition", range(3))
def test_the_same_commits_and_groups_make_the_same_bytes(partition: int) -> None:
    """Every batch of 3.9.2 that is no control batch: read into our objects, written from them."""
    data = log_bytes("3.9.2", partition)
    position = compared = 0

    while position < len(data):
        header = read_header(data, position)
        batch = data[position : position + header.size_bytes]
        position += header.size_bytes
        if header.is_control:
            continue
        rewritten = [rewrite(record, header.base_offset) for record in records(batch)]
        is_commit = header.base_sequence == 0
        kind = OFFSET_BATCH if is_commit else METADATA_BATCH
        options = BatchOptions(
            base_sequence=kind.base_sequence,
            flags=header.attributes & ~7,
            partition_leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_timestamp=header.base_timestamp,
            last_offset=header.last_offset,
            max_timestamp=header.max_timestamp,
        )
        assert build(rewritten, base_offset=header.base_offset, options=options) == batch
        compared += 1

    assert compared > 0


def test_offsets_in_a_transaction_make_the_same_bytes() -> None:
    compared = 0
    for batch in transactional_batches():
        header = read_header(batch)
        time = VirtualTime(header.max_timestamp)
        broker = GroupBroker(time=time)
        rows = []
        group_id = ""
        for record in records(batch):
            key = read_key(record.key or b"")
            assert isinstance(key, OffsetCommitKey)
            group_id = key.group
            value = read_offset_commit_value(record.value or b"", 0)
            rows.append((TopicPartition(key.topic, key.partition), value))
        producer = Producer(header.producer_id, header.producer_epoch)
        broker.groups.offsets.commit_in_transaction(Committer(group_id), producer, rows)
        moved = bytearray(batch)
        assign_offset(moved, 0, 0, 0)
        assert broker.log().data == moved
        compared += 1
    assert compared > 0


def transactional_batches() -> Iterator[bytes]:
    for partition in range(3):
        data = log_bytes("3.9.2", partition)
        position = 0
        while position < len(data):
            header = read_header(data, position)
            if header.is_transactional and not header.is_control:
                yield data[position : position + header.size_bytes]
            position += header.size_bytes


def rewrite(record: Record, base_offset: int) -> Record:
    about = read_key(record.key or b"")
    if isinstance(about, OffsetCommitKey):
        key = offset_commit_key(about.group, about.topic, about.partition)
        if record.value is None:
            return record._replace(key=key)
        value = offset_commit_value(read_offset_commit_value(record.value, base_offset))
        return record._replace(key=key, value=value)
    assert isinstance(about, GroupMetadataKey)
    if record.value is None:
        return record
    group = read_group_metadata(about.group, record.value)
    assignments = {each.member_id: each.assignment for each in group.members.values()}
    key, value = group_metadata(group, assignments)
    return record._replace(key=key, value=value)


names = st.text(max_size=20) | st.sampled_from(["t", "a" * 300, "é" * 200])
longs = st.integers(-(2**63), 2**63 - 1)


@given(names, names, st.integers(-(2**31), 2**31 - 1))
def test_the_key_of_a_commit_is_what_its_declaration_says(
    group: str, topic: str, partition: int
) -> None:
    declared = versioned(OffsetCommitKey(group=group, topic=topic, partition=partition), 1)

    assert offset_commit_key(group, topic, partition) == declared
    assert offset_commit_key(group, topic, partition) == declared


@given(longs, st.integers(-(2**31), 2**31 - 1), names, longs, st.none() | st.integers(0, 2**63 - 1))
def test_the_value_of_a_commit_is_what_its_declaration_says(
    offset: int, leader_epoch: int, metadata: str, time_ms: int, expires_ms: int | None
) -> None:
    declared = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=time_ms,
        expire_timestamp=-1 if expires_ms is None else expires_ms,
    )

    committed = CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=time_ms,
        expire_timestamp_ms=expires_ms,
    )

    assert offset_commit_value(committed) == versioned(declared, 3 if expires_ms is None else 1)
    for topic_id in (ZERO_UUID, UUID(int=7)):
        declared.topic_id = committed.topic_id = topic_id
        value = offset_commit_value(committed, with_topic_id=True)
        assert value == versioned(declared, 4 if expires_ms is None else 1)


def test_offsets_with_the_ids_of_their_topics_are_written_as_4_3_writes_them() -> None:
    compared = 0
    for record in (each for partition in range(3) for each in offsets_of_4_3(partition)):
        value = record.value or b""
        assert offset_commit_value(read_offset_commit_value(value, 0), with_topic_id=True) == value
        compared += 1
    assert compared > 50


def offsets_of_4_3(partition: int) -> Iterator[Record]:
    data = log_bytes("4.3.1", partition)
    while data:
        header = read_header(data)
        batch, data = data[: header.size_bytes], data[header.size_bytes :]
        for record in () if header.is_control else records(batch):
            if record.value is not None and isinstance(
                read_key(record.key or b""), OffsetCommitKey
            ):
                yield record
