"""Records of consumer groups: the bytes of Apache Kafka 4.3.1, from its logs and from its own classes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.coordinator.consumer_group import record_reading as reading
from kbroker.coordinator.consumer_group import records as writing
from kbroker.coordinator.consumer_group.changes import removal_of_group, removal_of_member, written
from kbroker.coordinator.consumer_group.record_values import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentMemberAssignment,
    GroupMetadata,
    MemberMetadata,
    MemberState,
    RecordKey,
    RecordKind,
    ResolvedRegularExpression,
    TargetAssignmentMetadata,
)
from kbroker.coordinator.group.records import offset_commit_key
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.versioned_record import VERSION_BYTES, keyed, versioned
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode
from kbroker.record.record_batch import read_header
from kbroker.record.record_batch import records as records_of
from tests.golden.group_records import GoldenRecord, from_json
from tests.golden.group_records import records as golden_records

GOLDEN = Path(__file__).parents[3] / "golden" / "groups"
OF_CONSUMER_GROUPS = [each for each in golden_records() if each.kind in reading.SCHEMAS]
A, B = UUID(int=1), UUID(int=2)
MEMBER = MemberMetadata(
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topic_names=frozenset({"z", "a"}),
    subscribed_topic_regex=None,
    rebalance_timeout_ms=60_000,
    server_assignor="uniform",
)
STABLE = CurrentMemberAssignment(5, 4, MemberState.STABLE, {B: {3: 5, 1: 4}, A: {0: 2}}, {})


def rewritten(record: KeyValue) -> KeyValue:
    """A record that was read into values, and written from them."""
    about = reading.read_key(record.key)
    assert about is not None
    kind, group_id, name = about
    value = record.value
    if value is None:
        return {
            RecordKind.GROUP_METADATA: lambda: writing.group_metadata_tombstone(group_id),
            RecordKind.MEMBER_METADATA: lambda: writing.member_metadata_tombstone(group_id, name),
            RecordKind.TARGET_ASSIGNMENT_MEMBER: lambda: writing.target_assignment_member_tombstone(group_id, name),
            RecordKind.CURRENT_MEMBER_ASSIGNMENT: lambda: writing.current_member_assignment_tombstone(group_id, name),
        }[kind]()  # fmt: skip
    return {
        RecordKind.GROUP_METADATA: lambda: writing.group_metadata(
            group_id, reading.read_group_metadata(value)
        ),
        RecordKind.MEMBER_METADATA: lambda: writing.member_metadata(
            group_id, name, reading.read_member_metadata(value)
        ),
        RecordKind.TARGET_ASSIGNMENT_METADATA: lambda: writing.target_assignment_metadata(
            group_id, reading.read_target_assignment_metadata(value)
        ),
        RecordKind.TARGET_ASSIGNMENT_MEMBER: lambda: writing.target_assignment_member(
            group_id, name, reading.read_target_assignment_member(value)
        ),
        RecordKind.CURRENT_MEMBER_ASSIGNMENT: lambda: writing.current_member_assignment(
            group_id, name, reading.read_current_member_assignment(value)
        ),
        RecordKind.REGULAR_EXPRESSION: lambda: writing.regular_expression(
            group_id, name, reading.read_regular_expression(value)
        ),
    }[kind]()


def records_of_a_running_broker() -> Iterator[KeyValue]:
    for partition in range(3):
        data = gzip.decompress((GOLDEN / f"consumer-offsets-4.3.1-{partition}.log.gz").read_bytes())
        while data:
            header = read_header(data)
            batch, data = data[: header.size_bytes], data[header.size_bytes :]
            for record in () if header.is_control else records_of(batch):
                if reading.read_key(record.key or b"") is not None:
                    yield KeyValue(record.key or b"", record.value)


def test_what_a_running_broker_wrote_is_written_again_byte_by_byte() -> None:
    written = list(records_of_a_running_broker())

    assert {reading.read_key(key).kind for key, _ in written} == {3, 5, 6, 7, 8}
    assert [rewritten(record) for record in written] == written


@pytest.mark.parametrize("kind", RecordKind, ids=lambda kind: kind.name)
def test_layouts_are_those_of_kafkas_own_classes(kind: RecordKind) -> None:
    key_class, value_class = reading.SCHEMAS[kind]
    golden = [each for each in OF_CONSUMER_GROUPS if each.kind == kind]
    keys = [from_json(key_class, each.key) for each in golden]
    values = [from_json(value_class, each.value) for each in golden]

    assert {each.name for each in golden} == {key_class.__name__.removesuffix("Key")}
    assert {each.name for each in golden} == {value_class.__name__.removesuffix("Value")}
    assert [(keyed(key), versioned(value, 0)) for key, value in zip(keys, values, strict=True)] == [
        each.record for each in golden
    ]
    assert values == [
        decode(value_class, 0, each.record.value or b"", VERSION_BYTES)[0] for each in golden
    ]


def is_written_today(golden: GoldenRecord) -> bool:
    """Kafka 4.3 writes no record of kind 4, no unknown state, an epoch with each partition, and
    whether a member speaks the classic protocol.
    """
    value = golden.value
    if golden.kind == RecordKind.PARTITION_METADATA or (
        golden.kind == RecordKind.MEMBER_METADATA and "classicMemberMetadata" not in value
    ):
        return False
    topics = value.get("assignedPartitions", []) + value.get("partitionsPendingRevocation", [])
    has_epochs = all(topic.get("assignmentEpochs") for topic in topics)
    return has_epochs and value.get("state", 0) in frozenset(MemberState)


def test_values_are_written_as_kafka_writes_them() -> None:
    golden = [each.record for each in OF_CONSUMER_GROUPS if is_written_today(each)]

    assert {reading.read_key(key).kind for key, _ in golden} == {3, 5, 6, 7, 8, 16}
    assert [rewritten(record) for record in golden] == golden


def test_the_order_in_which_values_come_makes_no_difference() -> None:
    turned = STABLE._replace(assigned_partitions={A: {0: 2}, B: {1: 4, 3: 5}})

    assert writing.current_member_assignment("g", "m", turned) == (
        writing.current_member_assignment("g", "m", STABLE)
    )
    assert writing.target_assignment_member("g", "m", {B: {2, 1}, A: [0]}) == (
        writing.target_assignment_member("g", "m", {A: {0}, B: [1, 2]})
    )


@pytest.mark.parametrize(
    "classic",
    [
        None,
        ClassicMemberMetadata(
            45_000, (ClassicProtocol("range", b"\0\1"), ClassicProtocol("x", b""))
        ),
    ],
)
def test_a_member_is_read_as_it_was_written(classic: ClassicMemberMetadata | None) -> None:
    member = MEMBER._replace(classic_member_metadata=classic)

    key, value = writing.member_metadata("g", "m", member)

    assert reading.read_key(key) == RecordKey(RecordKind.MEMBER_METADATA, "g", "m")
    assert reading.read_member_metadata(value or b"") == member


def test_a_current_assignment_is_read_as_it_was_written() -> None:
    key, value = writing.current_member_assignment("g", "m", STABLE)

    assert reading.read_key(key) == RecordKey(RecordKind.CURRENT_MEMBER_ASSIGNMENT, "g", "m")
    assert reading.read_current_member_assignment(value or b"") == STABLE


@pytest.mark.parametrize(("member_epoch", "got_in"), [(7, 7), (-2, 0)])
@pytest.mark.parametrize("epochs", [None, [], [1]])
def test_partitions_without_epochs_count_as_got_in_the_epoch_of_the_member(
    member_epoch: int, got_in: int, epochs: list[int] | None
) -> None:
    _, schema = reading.SCHEMAS[RecordKind.CURRENT_MEMBER_ASSIGNMENT]
    topic = schema.TopicPartitions(topic_id=A, partitions=[0, 3], assignment_epochs=epochs)
    value = schema(member_epoch=member_epoch, state=2, assigned_partitions=[topic])

    read = reading.read_current_member_assignment(versioned(value, 0))

    assert read.assigned_partitions == {A: {0: got_in, 3: got_in}}
    assert read.state is MemberState.UNRELEASED_PARTITIONS


def test_a_state_of_a_later_version_is_unknown() -> None:
    _, schema = reading.SCHEMAS[RecordKind.CURRENT_MEMBER_ASSIGNMENT]

    read = reading.read_current_member_assignment(versioned(schema(state=9), 0))

    assert read.state is MemberState.UNKNOWN


def test_a_group_is_buried_from_its_members_to_its_epoch() -> None:
    buried = list(written("g", removal_of_group(iter(["m", "n"]), ["a.*"])))

    assert all(value is None for _, value in buried)
    assert [reading.read_key(key) for key, _ in buried] == [
        RecordKey(RecordKind.CURRENT_MEMBER_ASSIGNMENT, "g", "m"),
        RecordKey(RecordKind.CURRENT_MEMBER_ASSIGNMENT, "g", "n"),
        RecordKey(RecordKind.TARGET_ASSIGNMENT_MEMBER, "g", "m"),
        RecordKey(RecordKind.TARGET_ASSIGNMENT_MEMBER, "g", "n"),
        RecordKey(RecordKind.TARGET_ASSIGNMENT_METADATA, "g"),
        RecordKey(RecordKind.MEMBER_METADATA, "g", "m"),
        RecordKey(RecordKind.MEMBER_METADATA, "g", "n"),
        RecordKey(RecordKind.REGULAR_EXPRESSION, "g", "a.*"),
        RecordKey(RecordKind.PARTITION_METADATA, "g"),
        RecordKey(RecordKind.GROUP_METADATA, "g"),
    ]


def test_a_member_is_buried_from_its_assignment_to_its_subscription() -> None:
    kinds = [reading.read_key(key).kind for key, _ in written("g", removal_of_member("m"))]

    assert kinds == [8, 7, 5]


@pytest.mark.parametrize("key", [offset_commit_key("g", "t", 0), b"\0\x0b\0\1g", b"\0\x63"])
def test_keys_of_other_kinds_are_not_read(key: bytes) -> None:
    assert reading.read_key(key) is None


@given(st.binary(max_size=60), st.sampled_from(sorted(reading.SCHEMAS)))
def test_any_bytes_are_a_record_or_refused(data: bytes, kind: RecordKind) -> None:
    readers = (
        reading.read_group_metadata, reading.read_member_metadata, reading.read_target_assignment_metadata,
        reading.read_target_assignment_member, reading.read_current_member_assignment,
        reading.read_regular_expression, lambda value: reading.read_key(kind.to_bytes(2, "big") + value),
    )  # fmt: skip

    for read in readers:
        for value in (data, b"\0\0" + data):
            with suppress(ProtocolError):
                read(value)


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\1\0\0\0\1\0", b"\0\0\0\0"])
def test_a_value_of_another_version_or_cut_short_is_refused(value: bytes) -> None:
    with pytest.raises(ProtocolError):
        reading.read_group_metadata(value)


def test_the_short_records_are_read_as_they_were_written() -> None:
    resolved = ResolvedRegularExpression(frozenset({"b", "a"}), 7, 8)

    _, group = writing.group_metadata("g", GroupMetadata(3, -1))
    _, target = writing.target_assignment_metadata("g", TargetAssignmentMetadata(3, 9))
    _, pattern = writing.regular_expression("g", "a|b", resolved)

    assert reading.read_group_metadata(group or b"") == GroupMetadata(3, -1)
    assert reading.read_target_assignment_metadata(target or b"") == TargetAssignmentMetadata(3, 9)
    assert reading.read_regular_expression(pattern or b"") == resolved
