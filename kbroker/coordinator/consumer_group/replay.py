"""Rebuilds consumer groups from their records, for whoever rebuilds all groups of a partition.

Pure. Law: the newest record of a key counts and a tombstone removes it; a group is there from its
first record to the tombstone of its epoch.
"""

from __future__ import annotations

from kbroker.coordinator.consumer_group.changes import read
from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.record_reading import read_key
from kbroker.coordinator.consumer_group.record_values import RecordKind
from kbroker.coordinator.runtime.timeline import Timeline


class ConsumerGroupReplay:
    """Takes records in the order of the log; `groups` has what they amount to, by group id."""

    def __init__(self, timeline: Timeline) -> None:
        """`timeline` of the shard that keeps the groups."""
        self._timeline = timeline
        self.groups: dict[str, ConsumerGroup] = {}

    def record(self, key: bytes, value: bytes | None) -> str:
        """Take in a record of a consumer group and return the group's id. A record that is not
        understood changes nothing and raises ProtocolError.
        """
        about = read_key(key)
        assert about is not None
        change = read(about, value)
        group_id = about.group_id
        group = self.groups.get(group_id)
        if group is None and value is not None:
            group = self.groups[group_id] = ConsumerGroup(
                group_id, self._timeline, knows_owners=False
            )
        if group is not None:
            group.apply(change)
        if change.kind is RecordKind.GROUP_METADATA and value is None:
            self.groups.pop(group_id, None)
        return group_id
