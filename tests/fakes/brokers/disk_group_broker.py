"""Brokers whose `__consumer_offsets` is on the disk, one after the other on the same directory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from tests.fakes.brokers.disk_offsets_log import DiskOffsetsLog
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.logs.log_maker import open_log

SMALL = {"segment_bytes": 600, "index_interval_bytes": 200, "cleanup_policy": ["compact"]}
_METADATA = "m" * 60


def writer_on(directory: Path, **settings: Any) -> GroupBroker:
    """A broker whose `__consumer_offsets` is on the disk."""
    broker = GroupBroker(lead=False, offsets_retention_minutes=7 * 24 * 60)
    broker.lead(DiskOffsetsLog(open_log(directory, **{**SMALL, **settings})))
    return broker


def restarted(broker: GroupBroker, directory: Path, **settings: Any) -> GroupBroker:
    """The next broker on a cleanly stopped log."""
    other = GroupBroker(lead=False, time=broker.time, offsets_retention_minutes=7 * 24 * 60)
    other.ids = broker.ids  # real ids never come twice
    log = open_log(directory, recovery_point=broker.log().log_end_offset, **{**SMALL, **settings})
    other.lead(DiskOffsetsLog(log))
    return other


def commit(
    broker: GroupBroker, group_id: str, offset: int, *, member: str = "", at: int = -1
) -> None:
    value = CommittedOffset(
        offset=offset, metadata=_METADATA, commit_timestamp_ms=broker.time.now_ms()
    )
    codes = broker.groups.offsets.commit(
        Committer(group_id, member, None, at), [(TopicPartition("t", 0), value)]
    )
    assert codes == [ErrorCode.NONE]


def committed(broker: GroupBroker, groups: Iterable[str]) -> dict[str, int]:
    found = {}
    for group_id in groups:
        for _, fetched in broker.groups.offsets.fetch(group_id, [TopicPartition("t", 0)], False):
            found[group_id] = fetched.offset
    return {group_id: offset for group_id, offset in found.items() if offset >= 0}


def twenty_commits(directory: Path, **settings: Any) -> GroupBroker:
    broker = writer_on(directory, **settings)
    for number in range(20):
        commit(broker, f"g{number}", number)
    assert len(broker.log().segments) > 3 or "segment_bytes" in settings
    broker.log().close()
    return broker


def flip(directory: Path, offset: int, log: DiskOffsetsLog, *, byte: int = 70) -> Path:
    """Spoil the batch that holds `offset`; the file it is in."""
    segment = log.segments[log.segments.floor_index(offset)]
    position = segment.position_of(offset)
    path = Path(segment.records.path)
    log.close()
    data = bytearray(path.read_bytes())
    data[position + byte] ^= 0x40
    path.write_bytes(data)
    return path


def append(broker: GroupBroker, batch: bytes) -> None:
    broker.log().append(memoryview(bytearray(batch)))
    broker.log().close()
