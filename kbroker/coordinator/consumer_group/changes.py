"""Changes of a consumer group: as values that enter its state, and as records of the log.

Pure. Law: a group changes by these alone, those that it decides and those that are read from the
log, so that the next coordinator comes to the same state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kbroker.coordinator.consumer_group import record_reading as reading
from kbroker.coordinator.consumer_group import records
from kbroker.coordinator.consumer_group.record_values import Partitions, RecordKey, RecordKind
from kbroker.coordinator.runtime.effects import KeyValue, RecordsToMake

_OF_GROUP: dict[RecordKind, tuple[Callable[[str, Any], KeyValue], Callable[[str], KeyValue]]] = {
    RecordKind.GROUP_METADATA: (
        records.group_metadata,
        records.group_metadata_tombstone,
    ),
    RecordKind.TARGET_ASSIGNMENT_METADATA: (
        records.target_assignment_metadata,
        records.target_assignment_metadata_tombstone,
    ),
}
_OF_NAME: dict[
    RecordKind, tuple[Callable[[str, str, Any], KeyValue], Callable[[str, str], KeyValue]]
] = {
    RecordKind.MEMBER_METADATA: (records.member_metadata, records.member_metadata_tombstone),
    RecordKind.TARGET_ASSIGNMENT_MEMBER: (
        records.target_assignment_member,
        records.target_assignment_member_tombstone,
    ),
    RecordKind.CURRENT_MEMBER_ASSIGNMENT: (
        records.current_member_assignment,
        records.current_member_assignment_tombstone,
    ),
    RecordKind.REGULAR_EXPRESSION: (
        records.regular_expression,
        records.regular_expression_tombstone,
    ),
}
_READERS: dict[RecordKind, Callable[[bytes], Any]] = {
    RecordKind.GROUP_METADATA: reading.read_group_metadata,
    RecordKind.PARTITION_METADATA: lambda _value: True,  # nothing is asked of it but to be there
    RecordKind.MEMBER_METADATA: reading.read_member_metadata,
    RecordKind.TARGET_ASSIGNMENT_METADATA: reading.read_target_assignment_metadata,
    RecordKind.TARGET_ASSIGNMENT_MEMBER: reading.read_target_assignment_member,
    RecordKind.CURRENT_MEMBER_ASSIGNMENT: reading.read_current_member_assignment,
    RecordKind.REGULAR_EXPRESSION: reading.read_regular_expression,
}


class Change(NamedTuple):
    """Something of a group has another value; None if it is gone."""

    kind: RecordKind
    name: str  # of the member or pattern that it is about, if it is about one
    value: Any


def record(group_id: str, change: Change) -> KeyValue:
    """The record of a change."""
    kind, name, value = change
    if kind in _OF_NAME:
        write, end = _OF_NAME[kind]
        return end(group_id, name) if value is None else write(group_id, name, value)
    if kind in _OF_GROUP:
        write_of_group, end_of_group = _OF_GROUP[kind]
        return end_of_group(group_id) if value is None else write_of_group(group_id, value)
    assert value is None, "nobody writes it any more"
    return records.partition_metadata_tombstone(group_id)


def read(key: RecordKey, value: bytes | None) -> Change:
    """The change of a record. ProtocolError for bytes that are none."""
    found = None if value is None else _READERS[key.kind](value)
    return Change(key.kind, key.name, found)


def removal_of_member(member_id: str) -> list[Change]:
    """Return what ends a member, in the order in which a load takes it."""
    return [
        Change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, member_id, None),
        Change(RecordKind.TARGET_ASSIGNMENT_MEMBER, member_id, None),
        Change(RecordKind.MEMBER_METADATA, member_id, None),
    ]


def removal_of_group(member_ids: Iterable[str], patterns: Iterable[str]) -> list[Change]:
    """Return what ends a group with these members and resolved patterns, in that order."""
    members = list(member_ids)
    return [
        *(Change(RecordKind.CURRENT_MEMBER_ASSIGNMENT, each, None) for each in members),
        *(Change(RecordKind.TARGET_ASSIGNMENT_MEMBER, each, None) for each in members),
        Change(RecordKind.TARGET_ASSIGNMENT_METADATA, "", None),
        *(Change(RecordKind.MEMBER_METADATA, each, None) for each in members),
        *(Change(RecordKind.REGULAR_EXPRESSION, each, None) for each in patterns),
        Change(RecordKind.PARTITION_METADATA, "", None),
        Change(RecordKind.GROUP_METADATA, "", None),
    ]


def written(group_id: str, changes: Iterable[Change]) -> list[KeyValue]:
    """The records of changes, in their order."""
    return [record(group_id, change) for change in changes]


def to_write(
    group_id: str, changes: Sequence[Change], large: int, before: Sequence[KeyValue] = ()
) -> tuple[KeyValue, ...] | RecordsToMake:
    """Return the records of changes, in their order, after others; or what makes them if they are
    `large`.
    """

    def make() -> tuple[KeyValue, ...]:
        return (*before, *written(group_id, changes))

    if len(changes) < large and sum(map(_size, changes)) < large:
        return make()
    return RecordsToMake(len(before) + len(changes), make)


def _size(change: Change) -> int:
    """About how many topics its record names; numbers of partitions take a tenth of that."""
    kind, _, value = change
    if value is None:
        return 0
    if kind is RecordKind.MEMBER_METADATA:
        return len(value.subscribed_topic_names)
    if kind is RecordKind.REGULAR_EXPRESSION:
        return len(value.topics)
    if kind is RecordKind.TARGET_ASSIGNMENT_MEMBER:
        return _size_of(value)
    if kind is RecordKind.CURRENT_MEMBER_ASSIGNMENT:
        return _size_of(value.assigned_partitions) + _size_of(value.partitions_pending_revocation)
    return 0


def _size_of(partitions: Partitions) -> int:
    return len(partitions) + sum(map(len, partitions.values())) // 10
