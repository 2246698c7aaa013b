"""The records of committed offsets and of classic groups, as Kafka 3.9 writes them with its newest
inter-broker protocol. Pure.

    record key   = int16 version, fields      0 and 1: a committed offset, 2: a group's metadata
    record value = int16 version, fields      missing (tombstone) when the offset or group is gone

Offsets are written in version 3, in 4 with the id of their topic from level 1 of group.version on,
or in 1 if the commit named a retention time; groups in version 3. Keys from 3 on belong to groups
of other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from struct import Struct as Layout
from uuid import UUID

from kbroker.coordinator.group.group import Group
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.member import Member
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.runtime.effects import KeyValue
from kbroker.coordinator.runtime.versioned_record import VERSION_BYTES, version_of, versioned
from kbroker.errors import ProtocolError
from kbroker.model import ZERO_UUID
from kbroker.protocol.codec import decode
from kbroker.protocol.declaration import Struct
from kbroker.protocol.schema import Message, message, wire

MAX_NAME_BYTES = 0x7FFF  # of a string in these records
_ALWAYS_FITS = MAX_NAME_BYTES // 4  # characters

_OFFSET_KEY_VERSION = 1
_OFFSET_VALUE_VERSION = 3
_OFFSET_WITH_TOPIC_ID_VERSION = 4
_EXPIRING_OFFSET_VALUE_VERSION = 1
_GROUP_KEY_VERSION = 2
_GROUP_VALUE_VERSION = 3
_NO_TIMESTAMP = -1
# What nearly all commits are: version, offset, leader epoch, no metadata, time; with a topic id
# also one tagged field, its tag, its size. A test holds them to the declaration below.
_PLAIN_OFFSET_VALUE = Layout(">hqihq")
_PLAIN_OFFSET_WITH_TOPIC_ID = Layout(">hqiBqBBB16s")
_WITHOUT_TOPIC_ID = 23  # bytes of such a value before its tagged fields
_KEPT_KEYS = 4096  # 300 bytes each, and 3 KB at most
_USUAL_NAME = 256  # characters
_PARTITION = Layout(">i")
PARTITION_BYTES = _PARTITION.size  # at the end of a committed offset's key
_KEPT_TOPIC_IDS = 1024
_AROUND_A_TOPIC_ID = (4, 1, 1, 0, 16)  # version, no metadata, one tagged field, its tag, its size


@message(key=None, versions="0-1")
class OffsetCommitKey(Message):
    """Names a committed offset."""

    group: str = wire("string", default="")
    topic: str = wire("string", default="")
    partition: int = wire("int32", default=0)


@message(key=None, versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    """A committed offset. v1: expiry per offset. v3: leader epoch. v4: tagged fields."""

    offset: int = wire("int64", default=0)
    leader_epoch: int = wire("int32", "3+", default=-1)
    metadata: str = wire("string", default="")
    commit_timestamp: int = wire("int64", default=0)
    expire_timestamp: int = wire("int64", "1", default=-1)
    topic_id: UUID = wire("uuid", "4+", default=ZERO_UUID, tag=0)


@message(key=None, versions="2")
class GroupMetadataKey(Message):
    """The key of a group's metadata: its id."""

    group: str = wire("string", default="")


@message(key=None, versions="0-4", flexible="4+")
class GroupMetadataValue(Message):
    """A group between two rebalances.

    v1: rebalance timeout. v2: time of the state. v3: static members. v4: tagged fields.
    """

    class MemberMetadata(Struct):
        """One member with its subscription and assignment."""

        member_id: str = wire("string", default="")
        group_instance_id: str | None = wire("string", "3+", nullable="3+", default=None)
        client_id: str = wire("string", default="")
        client_host: str = wire("string", default="")
        rebalance_timeout: int = wire("int32", "1+", default=0)
        session_timeout: int = wire("int32", default=0)
        subscription: bytes = wire("bytes", default=b"")
        assignment: bytes = wire("bytes", default=b"")

    protocol_type: str = wire("string", default="")
    generation: int = wire("int32", default=0)
    protocol: str | None = wire("string", nullable="0+", default=None)
    leader: str | None = wire("string", nullable="0+", default=None)
    current_state_timestamp: int = wire("int64", "2+", default=-1)
    members: list[MemberMetadata] = wire("[]MemberMetadata", default=[])


# ---- writing


def fits_a_record(name: str) -> bool:
    """Whether a record can hold this text; what was no UTF-8 has grown since it was read."""
    return len(name) <= _ALWAYS_FITS or len(name.encode()) <= MAX_NAME_BYTES


def offset_commit_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    if len(group_id) <= _USUAL_NAME:
        return _kept_offset_commit_key(group_id, topic, partition)
    return versioned(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), _OFFSET_KEY_VERSION
    )


@lru_cache(maxsize=_KEPT_KEYS)  # a group commits the same partitions again and again
def _kept_offset_commit_key(group_id: str, topic: str, partition: int) -> bytes:
    return versioned(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), _OFFSET_KEY_VERSION
    )


def offset_commit_value(committed: CommittedOffset, *, with_topic_id: bool = False) -> bytes:
    """The value of a committed offset; `with_topic_id` from level 1 of group.version on."""
    if committed.expire_timestamp_ms is None and not committed.metadata:
        if with_topic_id:
            topic_id = committed.topic_id.int  # `UUID.bytes` is one call more
            whole = _PLAIN_OFFSET_WITH_TOPIC_ID.pack(
                _OFFSET_WITH_TOPIC_ID_VERSION,
                committed.offset,
                committed.leader_epoch,
                1,
                committed.commit_timestamp_ms,
                1,
                0,
                16,
                topic_id.to_bytes(16, "big"),
            )
            return whole if topic_id else whole[:_WITHOUT_TOPIC_ID] + b"\0"
        return _PLAIN_OFFSET_VALUE.pack(
            _OFFSET_VALUE_VERSION,
            committed.offset,
            committed.leader_epoch,
            0,
            committed.commit_timestamp_ms,
        )
    version = _OFFSET_WITH_TOPIC_ID_VERSION if with_topic_id else _OFFSET_VALUE_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        topic_id=committed.topic_id,
    )
    if committed.expire_timestamp_ms is not None:
        value.expire_timestamp = committed.expire_timestamp_ms
        version = _EXPIRING_OFFSET_VALUE_VERSION
    return versioned(value, version)


def group_metadata_key(group_id: str) -> bytes:
    return versioned(GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def group_metadata(group: Group, assignments: Mapping[str, bytes]) -> KeyValue:
    """The record of a group with these assignments by member id."""
    protocol = group.protocol_name
    members = [
        GroupMetadataValue.MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(protocol or ""),
            assignment=assignments[member.member_id],
        )
        for member in group.members.values()
    ]
    timestamp = group.current_state_timestamp_ms
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=_NO_TIMESTAMP if timestamp is None else timestamp,
        members=members,
    )
    return KeyValue(group_metadata_key(group.group_id), versioned(value, _GROUP_VALUE_VERSION))


# ---- reading


def read_key(key: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """Decode the key of a record; None for kinds that are not kbroker's.

    ProtocolError for bytes that are not a key.
    """
    version = version_of(key)
    if version in OffsetCommitKey.spec.versions:
        return decode(OffsetCommitKey, version, key, VERSION_BYTES)[0]
    if version == _GROUP_KEY_VERSION:
        return decode(GroupMetadataKey, version, key, VERSION_BYTES)[0]
    return None


def read_offset_key_start(start: bytes) -> OffsetCommitKey | None:
    """Decode all of a committed offset's key but the partition, which ends it; None for bytes that
    are not the start of such a key.
    """
    try:
        if version_of(start) not in OffsetCommitKey.spec.versions:
            return None
        read, end = decode(
            OffsetCommitKey, _OFFSET_KEY_VERSION, start + bytes(PARTITION_BYTES), VERSION_BYTES
        )
    except ProtocolError:
        return None
    return read if end == len(start) + PARTITION_BYTES else None


def read_partition(key: bytes) -> int:
    """Read the partition at the end of a committed offset's key."""
    partition: int = _PARTITION.unpack_from(key, len(key) - PARTITION_BYTES)[0]
    return partition


def read_offset_commit_value(value: bytes, log_offset: int) -> CommittedOffset:
    """The offset of a record in the batch at `log_offset`.

    ProtocolError for bytes that are none.
    """
    if len(value) == _PLAIN_OFFSET_WITH_TOPIC_ID.size:
        version, offset, epoch, metadata, time_ms, tags, tag, size, topic_id = (
            _PLAIN_OFFSET_WITH_TOPIC_ID.unpack(value)
        )
        if (version, metadata, tags, tag, size) == _AROUND_A_TOPIC_ID:
            return CommittedOffset(
                offset=offset,
                leader_epoch=epoch,
                commit_timestamp_ms=time_ms,
                topic_id=_kept_topic_id(topic_id),
                log_offset=log_offset,
            )
    version = version_of(value)
    _check(version, OffsetCommitValue)
    read = decode(OffsetCommitValue, version, value, VERSION_BYTES)[0]
    return CommittedOffset(
        offset=read.offset,
        leader_epoch=read.leader_epoch,
        metadata=read.metadata,
        commit_timestamp_ms=read.commit_timestamp,
        expire_timestamp_ms=None if read.expire_timestamp < 0 else read.expire_timestamp,
        topic_id=read.topic_id,
        log_offset=log_offset,
    )


@lru_cache(maxsize=_KEPT_TOPIC_IDS)  # one object for all offsets of a topic
def _kept_topic_id(topic_id: bytes) -> UUID:
    return UUID(bytes=topic_id)


def read_group_metadata(group_id: str, value: bytes) -> Group:
    """The group of a record: Empty, or Stable with its members.

    ProtocolError for bytes that are none.
    """
    version = version_of(value)
    _check(version, GroupMetadataValue)
    read = decode(GroupMetadataValue, version, value, VERSION_BYTES)[0]
    group = Group(group_id, GroupState.STABLE if read.members else GroupState.EMPTY)
    timestamp = read.current_state_timestamp
    group.current_state_timestamp_ms = None if timestamp < 0 else timestamp
    group.generation_id = read.generation
    group.has_record = True
    group.protocol_type = read.protocol_type or None
    for entry in read.members:
        member = _member(entry, version, read)
        if member.member_id in group.members or member.group_instance_id in group.static_members:
            raise ProtocolError(f"group {group_id} has member {member.member_id} twice")
        group.add(member)
    group.leader_id = read.leader if read.leader in group.members else group.leader_id
    group.protocol_name = read.protocol
    group.compute_subscribed_topics()
    return group


def _member(
    member: GroupMetadataValue.MemberMetadata, version: int, group: GroupMetadataValue
) -> Member:
    return Member(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout if version else member.session_timeout,
        session_timeout_ms=member.session_timeout,
        protocol_type=group.protocol_type,
        protocols=[(group.protocol or "", member.subscription)],
        assignment=member.assignment,
    )


def _check(version: int, kind: type[Message]) -> None:
    if version not in kind.spec.versions:
        raise ProtocolError(f"{kind.__name__} version {version}, {kind.spec.versions} are known")
