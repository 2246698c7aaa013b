"""What may expire, and who goes on, where a coordinator could not see all of its log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.group_state import GroupState
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.leave_group import LeaveGroupRequest
from kbroker.record.record_batch import (
    Record,
    build,
)
from tests.fakes.brokers.disk_group_broker import (
    append,
    commit,
    committed,
    flip,
    restarted,
    writer_on,
)
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.logs.log_maker import NOW_MS

DAY_MS = 86_400_000
Leaving = LeaveGroupRequest.MemberIdentity


def test_nothing_expires_for_what_the_load_could_not_see(tmp_path: Path) -> None:
    """The record of a live group is damaged: its offsets look like those of a client that came to
    an end a month ago.
    """
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    joined = broker.stable_member("live")
    record_at = broker.log().log_end_offset - 1
    commit(broker, "live", 5, member=joined.member_id, at=joined.generation_id)
    broker.time.advance(30 * DAY_MS)
    flip(tmp_path / "log", record_at, broker.log())
    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    for _ in range(7):
        expire(after)
        after.time.advance(DAY_MS)
    assert committed(after, ["live"]) == {"live": 5}

    after.time.advance(DAY_MS)  # whoever used it would have come back by now
    expire(after)
    assert committed(after, ["live"]) == {}


def test_what_the_load_saw_whole_expires_in_its_time(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log")
    commit(broker, "old", 5)
    broker.time.advance(7 * DAY_MS)
    broker.log().close()
    after = restarted(broker, tmp_path / "log")

    expire(after)

    assert committed(after, ["old"]) == {}


def test_an_unknown_kind_of_record_is_something_unseen(tmp_path: Path) -> None:
    """A member of the consumer protocol may be using these offsets."""
    broker = writer_on(tmp_path / "log")
    commit(broker, "old", 5)
    append(broker, build([Record(0, NOW_MS, b"\x00\x03\x00\x03old", b"\x00\x00")]))
    broker.time.advance(7 * DAY_MS)
    after = restarted(broker, tmp_path / "log")

    expire(after)

    assert committed(after, ["old"]) == {"old": 5}


@pytest.mark.parametrize("kind", [9, 10, 15, 17, 18, 23])
def test_records_of_share_and_streams_groups_are_no_damage_and_their_offsets_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    broker = writer_on(tmp_path / "log")
    commit(broker, "old", 5)
    key = kind.to_bytes(2, "big") + b"\0\3old\0\1m"
    append(broker, build([Record(0, NOW_MS, key, b"\0\0"), Record(1, NOW_MS, key, None)]))
    broker.time.advance(7 * DAY_MS)

    with caplog.at_level(logging.INFO, "kbroker.coordinator"):
        after = restarted(broker, tmp_path / "log")
    expire(after)

    assert committed(after, ["old"]) == {"old": 5}
    (said,) = [record for record in caplog.records if "kept" in record.getMessage()]
    assert (said.levelname, "2 records" in said.getMessage()) == ("INFO", True)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_group_whose_offsets_are_damaged_is_not_buried(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    joined = broker.stable_member("g")
    commit(broker, "g", 5, member=joined.member_id, at=joined.generation_id)
    commit_at = broker.log().log_end_offset - 1
    broker.groups.leave_group("g", [Leaving(member_id=joined.member_id)])
    commit(broker, "gone-topic", 1)
    flip(tmp_path / "log", commit_at, broker.log())
    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    expire(after)
    after.groups.on_partitions_deleted([TopicPartition("t", 0)])

    _, described = after.groups.describe_group("g")
    assert described.group_state == GroupState.EMPTY.value
    assert committed(after, ["gone-topic"]) == {}  # an order is an order


def test_a_group_lives_on_at_a_broker_that_lost_its_record(tmp_path: Path) -> None:
    broker = writer_on(tmp_path / "log", segment_bytes=1 << 20)
    joined = broker.stable_member("g")
    record_at = broker.log().log_end_offset - 1
    commit(broker, "g", 5, member=joined.member_id, at=joined.generation_id)
    flip(tmp_path / "log", record_at, broker.log())
    after = restarted(broker, tmp_path / "log", segment_bytes=1 << 20)

    refused = after.groups.offsets.commit(
        Committer("g", joined.member_id, None, joined.generation_id),
        [(TopicPartition("t", 0), CommittedOffset(offset=6, commit_timestamp_ms=NOW_MS))],
    )
    again = after.stable_member("g")
    commit(after, "g", 6, member=again.member_id, at=again.generation_id)

    assert refused == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert committed(after, ["g"]) == {"g": 6}


def expire(broker: GroupBroker) -> None:
    for _ in broker.groups.offsets.expire():
        pass
