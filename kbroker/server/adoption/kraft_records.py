"""The records of KRaft's metadata log that say which topics there are and how they are set.

    record value = uvarint frame version (1), uvarint kind, uvarint version, fields (all flexible)

Keys are null. Kinds, versions and fields are those of Kafka 4.3 (KIP-631, KIP-868 for
transactions); kinds that say nothing about topics, and nothing that is left behind, are not
declared and not read.
"""

from __future__ import annotations

from uuid import UUID

from kbroker.errors import ProtocolError
from kbroker.model import ZERO_UUID
from kbroker.protocol.codec import decode
from kbroker.protocol.declaration import Struct
from kbroker.protocol.primitives import read_uvarint
from kbroker.protocol.schema import Message, message, wire

NO_LEADER_CHANGE = -2
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32  # of a ConfigRecord
_FRAME_VERSION = 1


@message(key=2, versions="0", flexible="0+")
class TopicRecord(Message):
    """A topic was created."""

    name: str = wire("string", default="")
    topic_id: UUID = wire("uuid", default=ZERO_UUID)


@message(key=3, versions="0-2", flexible="0+")
class PartitionRecord(Message):
    """A partition was created. v1: directories (KIP-858). v2: eligible leaders (KIP-966)."""

    partition_id: int = wire("int32", default=-1)
    topic_id: UUID = wire("uuid", default=ZERO_UUID)
    replicas: list[int] = wire("[]int32", default=[])
    isr: list[int] = wire("[]int32", default=[])
    removing_replicas: list[int] = wire("[]int32", default=[])
    adding_replicas: list[int] = wire("[]int32", default=[])
    leader: int = wire("int32", default=-1)
    leader_recovery_state: int = wire("int8", default=0, tag=0)
    leader_epoch: int = wire("int32", default=-1)
    partition_epoch: int = wire("int32", default=-1)
    directories: list[UUID] = wire("[]uuid", "1+", default=[])
    eligible_leader_replicas: list[int] | None = wire(
        "[]int32", "2+", nullable="2+", default=None, tag=1
    )
    last_known_elr: list[int] | None = wire("[]int32", "2+", nullable="2+", default=None, tag=2)


@message(key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    """A setting of a topic, broker or other resource; a null value takes it back."""

    resource_type: int = wire("int8", default=0)
    resource_name: str = wire("string", default="")
    name: str = wire("string", default="")
    value: str | None = wire("string", nullable="0+", default=None)


@message(key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(Message):
    """A partition changed; what is not named stayed. Naming a leader raises the leader epoch."""

    partition_id: int = wire("int32", default=-1)
    topic_id: UUID = wire("uuid", default=ZERO_UUID)
    isr: list[int] | None = wire("[]int32", nullable="0+", default=None, tag=0)
    leader: int = wire("int32", default=NO_LEADER_CHANGE, tag=1)
    replicas: list[int] | None = wire("[]int32", nullable="0+", default=None, tag=2)
    removing_replicas: list[int] | None = wire("[]int32", nullable="0+", default=None, tag=3)
    adding_replicas: list[int] | None = wire("[]int32", nullable="0+", default=None, tag=4)
    leader_recovery_state: int = wire("int8", default=-1, tag=5)
    eligible_leader_replicas: list[int] | None = wire(
        "[]int32", "2+", nullable="2+", default=None, tag=6
    )
    last_known_elr: list[int] | None = wire("[]int32", "2+", nullable="2+", default=None, tag=7)
    directories: list[UUID] | None = wire("[]uuid", "1+", nullable="1+", default=None, tag=8)


@message(key=9, versions="0", flexible="0+")
class RemoveTopicRecord(Message):
    """A topic was deleted, with its partitions and settings."""

    topic_id: UUID = wire("uuid", default=ZERO_UUID)


@message(key=11, versions="0", flexible="0+")
class UserScramCredentialRecord(Message):
    """A SCRAM credential of a user."""

    name: str = wire("string", default="")
    mechanism: int = wire("int8", default=0)
    salt: bytes = wire("bytes", default=b"")
    stored_key: bytes = wire("bytes", default=b"")
    server_key: bytes = wire("bytes", default=b"")
    iterations: int = wire("int32", default=0)


@message(key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    """The cluster settled on a level of a feature; 0 ends it."""

    name: str = wire("string", default="")
    feature_level: int = wire("int16", default=0)


@message(key=14, versions="0", flexible="0+")
class ClientQuotaRecord(Message):
    """A quota of users, clients or addresses was set or removed."""

    class EntityData(Struct):
        """A part of the entity that the quota is for; a null name is the default of its type."""

        entity_type: str = wire("string", default="")
        entity_name: str | None = wire("string", nullable="0+", default=None)

    entity: list[EntityData] = wire("[]EntityData", default=[])
    quota_key: str = wire("string", default="")
    value: float = wire("float64", default=0.0)
    remove: bool = wire("bool", default=False)


@message(key=15, versions="0", flexible="0+")
class ProducerIdsRecord(Message):
    """A block of producer ids was given out; `next_producer_id` is the first after it."""

    broker_id: int = wire("int32", default=0)
    broker_epoch: int = wire("int64", default=-1)
    next_producer_id: int = wire("int64", default=0)


@message(key=10, versions="0", flexible="0+")
class DelegationTokenRecord(Message):
    """A delegation token was made or renewed; principals are like User:ann."""

    owner: str = wire("string", default="")
    requester: str = wire("string", default="")
    renewers: list[str] = wire("[]string", default=[])
    issue_timestamp: int = wire("int64", default=0)
    max_timestamp: int = wire("int64", default=0)
    expiration_timestamp: int = wire("int64", default=0)
    token_id: str = wire("string", default="")


@message(key=18, versions="0", flexible="0+")
class AccessControlEntryRecord(Message):
    """A rule of the authorizer (an ACL)."""

    id: UUID = wire("uuid", default=ZERO_UUID)
    resource_type: int = wire("int8", default=0)
    resource_name: str = wire("string", default="")
    pattern_type: int = wire("int8", default=0)
    principal: str = wire("string", default="")
    host: str = wire("string", default="")
    operation: int = wire("int8", default=0)
    permission_type: int = wire("int8", default=0)


@message(key=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord(Message):
    """An ACL was removed."""

    id: UUID = wire("uuid", default=ZERO_UUID)


@message(key=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord(Message):
    """A SCRAM login was removed."""

    name: str = wire("string", default="")
    mechanism: int = wire("int8", default=0)


@message(key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    """From here on records count only if the transaction ends."""

    name: str | None = wire("string", nullable="0+", default=None, tag=0)


@message(key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    """The records of the transaction count."""


@message(key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    """The transaction never happened."""

    reason: str | None = wire("string", nullable="0+", default=None, tag=0)


@message(key=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord(Message):
    """A delegation token was removed."""

    token_id: str = wire("string", default="")


_KINDS: dict[int, type[Message]] = {
    kind.spec.key: kind
    for kind in (
        TopicRecord,
        PartitionRecord,
        ConfigRecord,
        PartitionChangeRecord,
        RemoveTopicRecord,
        UserScramCredentialRecord,
        FeatureLevelRecord,
        ClientQuotaRecord,
        ProducerIdsRecord,
        DelegationTokenRecord,
        AccessControlEntryRecord,
        RemoveAccessControlEntryRecord,
        RemoveUserScramCredentialRecord,
        BeginTransactionRecord,
        EndTransactionRecord,
        AbortTransactionRecord,
        RemoveDelegationTokenRecord,
    )
    if kind.spec.key is not None
}


def read_metadata_record(value: bytes) -> Message | None:
    """The message in a record's value; None for kinds that are not read.

    Raises ProtocolError for bytes that are no such record, or one of a version not known.
    """
    try:
        frame_version, position = read_uvarint(value, 0)
        kind_id, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except IndexError:
        raise ProtocolError(f"metadata record of {len(value)} bytes is cut short") from None
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"metadata record with frame version {frame_version}")
    kind = _KINDS.get(kind_id)
    if kind is None:
        return None
    if version not in kind.spec.versions:
        raise ProtocolError(f"{kind.__name__} version {version}, {kind.spec.versions} are known")
    return decode(kind, version, value, position)[0]
