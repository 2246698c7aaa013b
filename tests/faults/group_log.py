"""The log of `__consumer_offsets` as another coordinator would read it, read on as it grows."""

from __future__ import annotations

from typing import Any

from kbroker.coordinator.consumer_group.consumer_group import ConsumerGroup
from kbroker.coordinator.consumer_group.replay import ConsumerGroupReplay
from kbroker.coordinator.group.offsets import GroupOffsets
from kbroker.coordinator.group.records import (
    OffsetCommitKey,
    read_key,
    read_offset_commit_value,
)
from kbroker.coordinator.runtime.timeline import Timeline
from kbroker.model import TopicPartition
from kbroker.record.record_batch import (
    BatchHeader,
    Record,
    read_control,
    read_header,
    records,
)
from tests.fakes.brokers.group_broker import OffsetsLog
from tests.faults.group_clients import GROUP


class LogReader:
    """Reads a log to its end, or as far as it is confirmed."""

    def __init__(self, *, confirmed: bool) -> None:
        self._confirmed = confirmed
        self._log: OffsetsLog | None = None
        self.ends = 0  # of the group

    def read(self, log: OffsetsLog) -> None:
        """Read on; another log is read from its start."""
        if log is not self._log:
            self._log, self._position, self.ends = log, 0, 0
            self._groups = ConsumerGroupReplay(Timeline())
            self.offsets = GroupOffsets()
        end = log.high_watermark if self._confirmed else log.log_end_offset
        while self._position < len(log.data):
            header = read_header(log.data, self._position)
            if header.next_offset > end:
                return
            for record in records(log.data, self._position):
                if header.is_control:
                    self._take_marker(header, record)
                else:
                    self._take(header, record)
            self._position += header.size_bytes

    def _take_marker(self, header: BatchHeader, record: Record) -> None:
        control = read_control(record)
        assert control is not None
        self.offsets.end_transaction(header.producer_id, control.is_commit)

    def _take(self, header: BatchHeader, record: Record) -> None:
        assert record.key is not None
        about = read_key(record.key)
        if isinstance(about, OffsetCommitKey):
            committed = None
            if record.value is not None:
                committed = read_offset_commit_value(record.value, header.base_offset)
            producer_id = header.producer_id if header.is_transactional else None
            self.offsets.replay(
                TopicPartition(about.topic, about.partition), committed, producer_id
            )
        elif about is not None:  # a group of the classic protocol has taken its place
            if record.value is not None:
                self._groups.groups.pop(GROUP, None)
        else:
            before = self.group
            self._groups.record(record.key, record.value)
            self.ends += before is not None and self.group is None

    @property
    def group(self) -> ConsumerGroup | None:
        found = self._groups.groups.get(GROUP)
        if found is not None:
            found.find_owners()
        return found


def summary(group: ConsumerGroup) -> dict[str, Any]:
    """All that a group is, in words that can be compared."""
    return {
        "metadata": group.metadata,
        "target": group.target_metadata,
        "members": dict(group.members.items()),
        "targets": {name: dict(target) for name, target in group.targets.items()},
        "static": dict(group.static_members.items()),
        "owners": dict(group.owners.items()),
        "topics": dict(group.topic_counts.items()),
        "patterns": dict(group.pattern_counts.items()),
        "resolved": dict(group.resolved.items()),
        "pattern topics": dict(group.pattern_topics.items()),
        "assignors": dict(group.assignor_counts.items()),
    }


def summary_of_offsets(offsets: GroupOffsets) -> dict[str, Any]:
    return {
        "committed": {place: each.offset for place, each in offsets.committed.items()},
        "pending": {key: each.offset for key, each in offsets.pending.items()},
    }
