"""ListOffsets: by time, and the special times. The topic has batches of five records at t, t + 1 s
and t + 2 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from compat_tests.wire.hand_packed import int32, int64, request, text
from compat_tests.wire.record_bytes import batch
from compat_tests.wire.wire_client import LIST_OFFSETS, WireClient, code, stored_at

NOT_FOUND = "offset=-1 ts=-1 epoch=-1"
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = (
    -1, -2, -3, -4, -5, -6,
)  # fmt: skip


@pytest.fixture(scope="module")
def t() -> int:
    """The timestamp of the first batch."""
    return int(time.time() * 1000) - 60_000


@pytest.fixture(scope="module")
def timed(bootstrap: str, t: int) -> str:
    """A topic with three batches, a second apart."""
    wire = WireClient(bootstrap)
    topic = wire.create_topic()
    for number in range(3):
        answer = wire.produce(topic, batch(5, timestamp_ms=t + 1000 * number))
        assert answer == stored_at(5 * number)
    wire.close()
    return topic


@pytest.mark.row(119)
def test_no_record_is_as_late_as_that(wire: WireClient, timed: str, t: int) -> None:
    assert wire.list_offsets(timed, t + 2001) == f"0 {NOT_FOUND}"


@pytest.mark.row(120)
def test_a_time_before_all_records_gives_the_first(wire: WireClient, timed: str, t: int) -> None:
    assert wire.list_offsets(timed, t - 1000) == f"0 offset=0 ts={t} epoch=0"


@pytest.mark.row(121, 122)
@pytest.mark.parametrize("later_ms", [1000, 500])
def test_a_time_gives_the_first_record_that_is_as_late(
    wire: WireClient, timed: str, t: int, later_ms: int
) -> None:
    assert wire.list_offsets(timed, t + later_ms) == f"0 offset=5 ts={t + 1000} epoch=0"


@pytest.mark.row(123)
def test_latest_gives_the_end(wire: WireClient, timed: str) -> None:
    assert wire.list_offsets(timed, LATEST) == "0 offset=15 ts=-1 epoch=0"


@pytest.mark.row(124, 126)
@pytest.mark.parametrize(("special", "version"), [(EARLIEST, 7), (EARLIEST_LOCAL, 8)])
def test_earliest_gives_the_start(wire: WireClient, timed: str, special: int, version: int) -> None:
    assert wire.list_offsets(timed, special, version) == "0 offset=0 ts=-1 epoch=0"


@pytest.mark.row(125)
def test_max_timestamp_gives_the_latest_record(wire: WireClient, timed: str, t: int) -> None:
    assert wire.list_offsets(timed, MAX_TIMESTAMP) == f"0 offset=10 ts={t + 2000} epoch=0"


@pytest.mark.row(127)
def test_nothing_is_tiered(wire: WireClient, timed: str) -> None:
    assert wire.list_offsets(timed, LATEST_TIERED, 9) == f"0 {NOT_FOUND}"


@pytest.mark.row(128)
def test_nothing_is_pending_upload(wire: WireClient, timed: str) -> None:
    assert wire.list_offsets(timed, EARLIEST_PENDING_UPLOAD, 11) == f"0 {NOT_FOUND}"


@pytest.mark.row(128)
def test_pending_upload_is_unknown_to_version_9(wire: WireClient, timed: str) -> None:
    answer = wire.list_offsets(timed, EARLIEST_PENDING_UPLOAD, 9)
    assert answer == f"35 UNSUPPORTED_VERSION {NOT_FOUND}"


@pytest.mark.row(129)
def test_a_time_that_means_nothing_is_refused(wire: WireClient, timed: str) -> None:
    assert wire.list_offsets(timed, -9) == f"35 UNSUPPORTED_VERSION {NOT_FOUND}"


@pytest.mark.row(130)
def test_max_timestamp_is_unknown_to_version_6(wire: WireClient, timed: str) -> None:
    assert wire.list_offsets(timed, MAX_TIMESTAMP, 6) == f"35 UNSUPPORTED_VERSION {NOT_FOUND}"


@pytest.mark.row(131)
def test_an_empty_topic_has_a_start_and_an_end_and_no_times(wire: WireClient) -> None:
    topic = wire.create_topic()
    special = [EARLIEST, LATEST, 1, MAX_TIMESTAMP]
    empty = "0 offset=0 ts=-1 epoch=0"
    assert [wire.list_offsets(topic, time) for time in special] == [
        empty, empty, f"0 {NOT_FOUND}", f"0 {NOT_FOUND}",
    ]  # fmt: skip


@pytest.mark.row(132)
def test_a_missing_topic_and_a_missing_partition_are_unknown(
    wire: WireClient, timed: str, topic: str
) -> None:
    unknown = f"3 UNKNOWN_TOPIC_OR_PARTITION {NOT_FOUND}"
    assert wire.list_offsets(topic, LATEST) == unknown
    assert wire.list_offsets(timed, LATEST, partition=9) == unknown


@pytest.mark.row(133)
def test_a_newer_leader_epoch_is_refused(wire: WireClient, timed: str) -> None:
    answer = wire.list_offsets(timed, LATEST, epoch=9)
    assert answer == f"75 UNKNOWN_LEADER_EPOCH {NOT_FOUND}"


@pytest.mark.row(134)
def test_a_partition_named_twice_is_refused(
    wire: WireClient, timed: str, either: Callable[[int, int], int]
) -> None:
    partition = {"partition_index": 0, "timestamp": LATEST}
    topics = [{"name": timed, "partitions": [partition, partition]}]
    answer = wire.call(LIST_OFFSETS, 7, replica_id=-1, topics=topics)
    refused = [code(p.error_code) for topic in answer.topics for p in topic.partitions]
    assert refused == ["42 INVALID_REQUEST"] * either(2, 1)


@pytest.mark.row(135)
def test_version_0_lists_starts_of_segments_and_the_end(
    wire: WireClient, timed: str, only_kbroker: None
) -> None:
    partition = int32(0) + int64(LATEST) + int32(2)
    body = int32(-1) + int32(1) + text(timed) + int32(1) + partition
    wire.send_frame(request(LIST_OFFSETS, 0, body))
    found = int32(0) + b"\0\0" + int32(2) + int64(15) + int64(0)
    assert wire.receive_frame() == int32(7) + int32(1) + text(timed) + int32(1) + found


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_the_end(wire: WireClient, timed: str, version: int) -> None:
    assert wire.list_offsets(timed, LATEST, version).startswith("0 offset=15 ts=-1")
