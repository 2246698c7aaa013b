"""OffsetCommit and OffsetFetch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.wire.group_member import Member, commit
from compat_tests.wire.hand_packed import int32, int64, request, text
from compat_tests.wire.wire_client import OFFSET_COMMIT, OFFSET_FETCH, WireClient, code


@pytest.fixture(scope="module")
def made(bootstrap: str) -> str:
    """A topic whose offsets are committed; groups are served when it is there."""
    wire = WireClient(bootstrap)
    wire.wait_for_coordinator("any")
    topic = wire.create_topic()
    wire.close()
    return topic


@pytest.fixture
def member(connect: Callable[[], WireClient], group: str, made: str) -> Member:
    """The only, stable member of a group."""
    return Member(connect(), group).join_and_sync()


def fetch(wire: WireClient, group: str, topic: str, partitions: list[int]) -> list[object]:
    """(code, offset, metadata, leader epoch) of each partition, from OffsetFetch v7."""
    topics = [{"name": topic, "partition_indexes": partitions}]
    answer = wire.call(OFFSET_FETCH, 7, group_id=group, topics=topics)
    assert code(answer.error_code) == "0"
    return [
        (code(p.error_code), p.committed_offset, p.metadata, p.committed_leader_epoch)
        for t in answer.topics
        for p in t.partitions
    ]


@pytest.mark.row(137)
def test_whoever_is_no_member_commits_to_a_new_group(
    wire: WireClient, group: str, made: str
) -> None:
    assert commit(wire, group, made, offset=42, metadata="m") == "0"
    assert fetch(wire, group, made, [0]) == [("0", 42, "m", -1)]


@pytest.mark.row(138)
def test_a_generation_of_a_group_that_does_not_exist_is_refused(
    wire: WireClient, group: str, made: str
) -> None:
    assert commit(wire, group, made, generation=5) == "22 ILLEGAL_GENERATION"


@pytest.mark.row(139)
def test_an_unknown_member_may_not_commit(member: Member, made: str) -> None:
    assert member.commit(made, member_id="nobody") == "25 UNKNOWN_MEMBER_ID"
    assert member.commit(made) == "0"


@pytest.mark.row(140)
@pytest.mark.parametrize("difference", [1, -1])
def test_a_wrong_generation_may_not_commit(member: Member, made: str, difference: int) -> None:
    wrong = member.generation + difference
    assert member.commit(made, generation=wrong) == "22 ILLEGAL_GENERATION"


@pytest.mark.row(141)
def test_whoever_is_no_member_may_not_commit_to_a_live_group(member: Member, made: str) -> None:
    assert member.commit(made, generation=-1, member_id="") == "25 UNKNOWN_MEMBER_ID"


@pytest.mark.row(142)
def test_metadata_is_limited_to_4096_bytes(wire: WireClient, group: str, made: str) -> None:
    too_much = commit(wire, group, made, metadata="m" * 4097)
    assert too_much == "12 OFFSET_METADATA_TOO_LARGE"
    assert commit(wire, group, made, metadata="m" * 4096) == "0"


@pytest.mark.row(143)
def test_a_missing_topic_and_a_missing_partition_are_unknown(
    wire: WireClient, group: str, topic: str, made: str
) -> None:
    assert commit(wire, group, topic) == "3 UNKNOWN_TOPIC_OR_PARTITION"
    assert commit(wire, group, made, partition=9) == "3 UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.row(144)
def test_a_negative_offset_is_accepted(wire: WireClient, group: str, made: str) -> None:
    assert commit(wire, group, made, offset=-5) == "0"


@pytest.mark.row(145)
def test_an_empty_group_id_may_commit(wire: WireClient, made: str) -> None:
    assert commit(wire, "", made) == "0"


@pytest.mark.row(146)
def test_version_0_keeps_offsets_aside(
    wire: WireClient, group: str, made: str, only_kbroker: None
) -> None:
    partition = int32(0) + int64(17) + text("m")
    body = text(group) + int32(1) + text(made) + int32(1) + partition
    wire.send_frame(request(OFFSET_COMMIT, 0, body))
    answered = int32(7) + int32(1) + text(made) + int32(1) + int32(0)
    assert wire.receive_frame() == answered + b"\0\0"

    wire.send_frame(
        request(OFFSET_FETCH, 0, text(group) + int32(1) + text(made) + int32(1) + int32(0))
    )
    found = wire.receive_frame()
    assert found.startswith(answered + int64(17))
    assert found.endswith(b"\0\0")
    assert fetch(wire, group, made, [0]) == [("0", -1, "", -1)]


@pytest.mark.row(147)
def test_an_unknown_group_has_no_offsets(wire: WireClient, group: str, made: str) -> None:
    assert fetch(wire, group, made, [0, 9]) == [("0", -1, "", -1), ("0", -1, "", -1)]


@pytest.mark.row(148)
def test_an_unknown_group_has_no_offsets_in_version_1(
    wire: WireClient, group: str, made: str
) -> None:
    topics = [{"name": made, "partition_indexes": [0]}]
    found = wire.call(OFFSET_FETCH, 1, group_id=group, topics=topics).topics[0].partitions[0]
    assert (code(found.error_code), found.committed_offset, found.metadata) == ("0", -1, "")


def test_no_list_of_topics_gives_all_committed_offsets(
    wire: WireClient, group: str, made: str
) -> None:
    assert commit(wire, group, made, offset=3) == "0"
    answer = wire.call(OFFSET_FETCH, 7, group_id=group, topics=None)
    found = [(t.name, p.committed_offset) for t in answer.topics for p in t.partitions]
    assert found == [(made, 3)]
