"""Decodes the records of Kafka's own topics: offsets, groups of all kinds, transactions."""

from __future__ import annotations

import base64
from collections.abc import Callable
from struct import Struct as Layout
from struct import error as struct_error
from typing import Any
from uuid import UUID

from kbroker.coordinator.consumer_group.record_schemas import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from kbroker.coordinator.consumer_group.record_values import MemberState
from kbroker.coordinator.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    read_key,
)
from kbroker.coordinator.runtime.versioned_record import VERSION_BYTES, version_of
from kbroker.coordinator.transaction.records import (
    TransactionLogKey,
    read_transaction_log_key,
    read_transaction_log_value,
)
from kbroker.coordinator.transaction.transaction import TransactionState
from kbroker.decoding.group_record_schemas import SCHEMAS
from kbroker.decoding.share_group_records import ShareGroupCurrentMemberAssignmentValue
from kbroker.errors import ProtocolError
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kbroker.protocol.codec import decode
from kbroker.protocol.declaration import FieldSpec, Struct, field_specs
from kbroker.protocol.schema import Message
from kbroker.wording import uuid_text

_VERSION = Layout(">h")

_STATES = {state.value: state.label for state in TransactionState}

_MEMBER_STATES = {state.value: state.name for state in MemberState}

_WITH_STATE = (ConsumerGroupCurrentMemberAssignmentValue, ShareGroupCurrentMemberAssignmentValue)

_KEYS = (OffsetCommitKey, GroupMetadataKey, TransactionLogKey)

Decoded = tuple[Any, Any]  # key and value, as JSON knows them


def internal_decoder_of(topic: str) -> Callable[[bytes | None, bytes | None], Decoded] | None:
    """Return the decoder of a topic's keys and values; None if they are its users' own."""
    if topic == GROUP_METADATA_TOPIC:
        return _decode_group_record
    if topic == TRANSACTION_STATE_TOPIC:
        return _decode_transaction_record
    return None


def _decode_group_record(key: bytes | None, value: bytes | None) -> Decoded:
    try:
        kind = version_of(key or b"")
        if kind in SCHEMAS:
            return _decode_newer_group_record(kind, key or b"", value)
        read = read_key(key or b"")
        if isinstance(read, OffsetCommitKey):
            return _named("offset", read), _versioned(OffsetCommitValue, value)
        if isinstance(read, GroupMetadataKey):
            return _named("group", read), _versioned(GroupMetadataValue, value)
    except (ProtocolError, struct_error) as error:
        return _unreadable(key, error), _plain(value)
    return {"kind": f"unknown (key version {kind})", **_plain(key)}, _plain(value)


def _decode_newer_group_record(kind: int, key: bytes, value: bytes | None) -> Decoded:
    """Decode a record of a kind of group that Kafka 3.7 or a later one has brought."""
    name, key_class, value_class = SCHEMAS[kind]
    named = _named(name, decode(key_class, 0, key, VERSION_BYTES)[0])
    shown = _plain(value) if value_class is None else _versioned(value_class, value)
    if value_class in _WITH_STATE and shown is not None:
        shown["state"] = _MEMBER_STATES.get(shown["state"], shown["state"])
    return named, shown


def _decode_transaction_record(key: bytes | None, value: bytes | None) -> Decoded:
    try:
        named = _named("transaction", read_transaction_log_key(key or b""))
        if value is None:
            return named, None
        (version,) = _VERSION.unpack_from(value)
        fields = _fields(read_transaction_log_value(value), version)
    except (ProtocolError, struct_error) as error:
        return _unreadable(key, error), _plain(value)
    status = fields["transaction_status"]
    return named, {
        "version": version,
        **fields,
        "transaction_status": _STATES.get(status, status),
    }


def _named(kind: str, key: Struct) -> dict[str, Any]:
    return {"kind": kind, **_fields(key, 0)}


def _versioned(kind: type[Message], value: bytes | None) -> Any:
    if value is None:
        return None
    (version,) = _VERSION.unpack_from(value)
    return {"version": version, **_fields(decode(kind, version, value, _VERSION.size)[0], version)}


def _fields(struct: Struct, version: int) -> dict[str, Any]:
    """Return the fields of this version; tagged ones are left out while they have their default."""
    found = {}
    for field in field_specs(type(struct)):
        value = getattr(struct, field.name)
        is_key = struct.__class__ in _KEYS
        if is_key or (version in field.versions and not _is_left_out(field, value)):
            found[field.name] = _plain(value, version)
    return found


def _is_left_out(field: FieldSpec, value: Any) -> bool:
    default = field.struct() if field.default is ... and field.struct else field.default
    return field.tag is not None and value == default


def _plain(value: Any, version: int = 0) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, Struct):
        return _fields(value, version)
    if isinstance(value, list):
        return [_plain(item, version) for item in value]
    if isinstance(value, UUID):
        return uuid_text(value)
    return value


def _unreadable(key: bytes | None, error: Exception) -> dict[str, Any]:
    return {"kind": f"unreadable: {error}", **(_plain(key) or {})}
