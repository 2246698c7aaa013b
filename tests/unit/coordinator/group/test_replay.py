"""What is read of groups is handed over."""

from __future__ import annotations

from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.coordinator.group.records import offset_commit_key, offset_commit_value
from kbroker.coordinator.group.replay import GroupReplay


def test_what_was_read_is_handed_over_and_not_kept() -> None:
    replay = GroupReplay()
    value = offset_commit_value(CommittedOffset(offset=5, commit_timestamp_ms=1))
    replay.record(offset_commit_key("g", "t", 0), value, 7, None)

    assert [group.group_id for group in replay.groups()] == ["g"]

    assert list(replay.groups()) == []
