"""What is read of groups is handed over."""

from __future__ import annotations

from uuid import UUID

from hypothesis import assume, given
from hypothesis import strategies as st

from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    offset_commit_key,
    offset_commit_value,
    read_key,
)
from kbroker.coordinator.group.replay import GroupReplay
from kbroker.coordinator.group.unserved_records import not_taken
from kbroker.coordinator.runtime.versioned_record import version_of
from kbroker.errors import ProtocolError
from kbroker.model import TopicPartition
from kbroker.protocol.codec import decode

KEY = offset_commit_key("group", "topic", 7)
VALUE = offset_commit_value(
    CommittedOffset(offset=5, leader_epoch=3, commit_timestamp_ms=9, topic_id=UUID(int=1 << 100)),
    with_topic_id=True,
)


def test_what_was_read_is_handed_over_and_not_kept() -> None:
    replay = GroupReplay()
    value = offset_commit_value(CommittedOffset(offset=5, commit_timestamp_ms=1))
    replay.record(offset_commit_key("g", "t", 0), value, 7, None)

    assert [group.group_id for group in replay.groups()] == ["g"]

    assert list(replay.groups()) == []


def read(key: bytes, value: bytes) -> object:
    """The groups that a replay makes of a record, or the reason of its refusal."""
    replay = GroupReplay()
    try:
        replay.record(key, value, 40, None)
    except ProtocolError as error:
        return str(error)
    return [(group.group_id, dict(group.offsets.committed.items())) for group in replay.groups()]


def declared(key: bytes, value: bytes) -> object:
    """The same by the declared layouts alone."""
    try:
        if read_key(key) is None:
            raise not_taken(key)
        about = decode(OffsetCommitKey, 1, key, 2)[0]
        version = version_of(value)
        if version not in OffsetCommitValue.spec.versions:
            raise ProtocolError(f"OffsetCommitValue version {version}, 0-4 are known")
        read = decode(OffsetCommitValue, version, value, 2)[0]
    except ProtocolError as error:
        return str(error)
    committed = CommittedOffset(
        offset=read.offset,
        leader_epoch=read.leader_epoch,
        metadata=read.metadata,
        commit_timestamp_ms=read.commit_timestamp,
        expire_timestamp_ms=None if read.expire_timestamp < 0 else read.expire_timestamp,
        topic_id=read.topic_id,
        log_offset=40,
    )
    return [(about.group, {TopicPartition(about.topic, about.partition): committed})]


@given(
    st.sampled_from([(KEY, VALUE), (KEY, VALUE[:23] + b"\0")]),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3),
    st.binary(max_size=6),
    st.binary(max_size=6),
)
def test_bytes_nearly_like_the_usual_ones_are_read_by_their_declaration(
    record: tuple[bytes, bytes],
    changes: list[tuple[int, int]],
    more_of_key: bytes,
    more_of_value: bytes,
) -> None:
    key, value = bytearray(record[0] + more_of_key), bytearray(record[1] + more_of_value)
    for place, byte in changes:
        changed, at = (key, place) if place < len(key) else (value, place - len(key))
        if at < len(changed):
            changed[at] = byte
    assume(bytes(key[:2]) != b"\0\2")  # a classic group

    assert read(bytes(key), bytes(value)) == declared(bytes(key), bytes(value))


def test_a_batch_of_one_partition_of_many_groups_is_kept_under_one_name() -> None:
    replay = GroupReplay()
    for group in ("a", "b"):
        replay.record(offset_commit_key(group, "topic", 1_000), VALUE, 7, None)

    (first,), (second,) = (group.offsets.committed for group in replay.groups())

    assert first is second
