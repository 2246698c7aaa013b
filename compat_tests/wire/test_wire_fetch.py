"""Fetch: bounds, waiting, limits of size, epochs and sessions. The topic has three batches of five
records.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from compat_tests.wire.record_bytes import batch, first_batch
from compat_tests.wire.wire_client import FETCH, WireClient, code, fetch_fields, fetched, stored_at

NOTHING = "hw=-1; lso=-1; log_start=-1; records=0 bytes"
OUT_OF_RANGE = f"1 OFFSET_OUT_OF_RANGE; {NOTHING}"
BATCH = batch(5, value_bytes=20)


@pytest.fixture
def three_batches(wire: WireClient) -> str:
    """A topic with three equal batches of five records."""
    topic = wire.create_topic()
    assert [wire.produce(topic, BATCH) for _ in range(3)] == [stored_at(n) for n in (0, 5, 10)]
    return topic


def fields_by_id(topic_id: uuid.UUID, **values: Any) -> dict[str, Any]:
    fields = fetch_fields("", 0, **values)
    fields["topics"] = [
        {"topic_id": topic_id, "partitions": topic["partitions"]} for topic in fields["topics"]
    ]
    return fields


@pytest.mark.row(97, 100)
@pytest.mark.parametrize("offset", [16, -1])
def test_offsets_outside_of_the_log_are_out_of_range(
    wire: WireClient, three_batches: str, offset: int
) -> None:
    assert fetched(wire.fetch(three_batches, offset)) == OUT_OF_RANGE


@pytest.mark.row(98)
def test_a_fetch_at_the_end_waits_for_records(wire: WireClient, three_batches: str) -> None:
    before = time.monotonic()
    answer = wire.fetch(three_batches, 15, max_wait=300)
    assert fetched(answer) == "0; hw=15; lso=15; log_start=0; records=0 bytes"
    assert 0.29 <= time.monotonic() - before < 2


@pytest.mark.row(98)
def test_a_waiting_fetch_is_answered_when_records_arrive(
    wire: WireClient, three_batches: str, connect: Callable[[], WireClient]
) -> None:
    before = time.monotonic()
    correlation_id = wire.send(FETCH, 11, **fetch_fields(three_batches, 15, max_wait=10_000))
    time.sleep(0.05)
    assert connect().produce(three_batches, BATCH) == stored_at(15)
    answer = wire.receive(FETCH, 11, correlation_id).responses[0].partitions[0]
    assert first_batch(answer.records)["base_offset"] == 15
    assert time.monotonic() - before < 5


@pytest.mark.row(101)
def test_a_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(
    wire: WireClient, three_batches: str
) -> None:
    stored = first_batch(wire.fetch(three_batches, 7).records)
    assert (stored["base_offset"], stored["size"]) == (5, len(BATCH))


@pytest.mark.row(102)
def test_a_fetch_for_more_than_there_is_waits_and_returns_what_there_is(
    wire: WireClient, three_batches: str
) -> None:
    before = time.monotonic()
    answer = wire.fetch(three_batches, 0, min_bytes=1_000_000, max_wait=300)
    assert len(answer.records) == 3 * len(BATCH)
    assert 0.29 <= time.monotonic() - before < 2


@pytest.mark.row(103, 104)
@pytest.mark.parametrize("limit", ["max_bytes", "partition_max_bytes"])
def test_the_first_batch_comes_whole_however_small_the_limit(
    wire: WireClient, three_batches: str, limit: str
) -> None:
    assert len(wire.fetch(three_batches, 0, **{limit: 1}).records) == len(BATCH)


@pytest.mark.row(105)
def test_a_later_batch_is_cut_at_the_limit(wire: WireClient, three_batches: str) -> None:
    limit = len(BATCH) * 3 // 2
    assert len(wire.fetch(three_batches, 0, partition_max_bytes=limit).records) == limit


@pytest.mark.row(107)
def test_only_the_first_partition_gets_records_when_the_limit_is_small(wire: WireClient) -> None:
    topic = wire.create_topic(partitions=2)
    assert wire.produce_answers(topic, [(0, BATCH), (1, BATCH)], 7) == [stored_at(0)] * 2
    fields = fetch_fields(topic, 0, max_bytes=1)
    first = fields["topics"][0]["partitions"][0]
    fields["topics"][0]["partitions"] = [first, {**first, "partition": 1}]
    answer = wire.call(FETCH, 11, **fields)
    assert [bool(p.records) for p in answer.responses[0].partitions] == [True, False]


def test_of_a_later_partition_no_batch_is_cut_before_it_has_one(wire: WireClient) -> None:
    topic = wire.create_topic(partitions=2)
    assert wire.produce_answers(topic, [(0, BATCH), (1, BATCH)], 7) == [stored_at(0)] * 2
    fields = fetch_fields(topic, 0, partition_max_bytes=len(BATCH) // 2)
    first = fields["topics"][0]["partitions"][0]
    fields["topics"][0]["partitions"] = [first, {**first, "partition": 1}]

    answer = wire.call(FETCH, 11, **fields)

    assert [len(p.records) for p in answer.responses[0].partitions] == [len(BATCH), 0]


@pytest.mark.row(108)
def test_a_missing_topic_is_unknown(wire: WireClient, topic: str) -> None:
    assert fetched(wire.fetch(topic, 0)) == f"3 UNKNOWN_TOPIC_OR_PARTITION; {NOTHING}"


@pytest.mark.row(109, 110)
@pytest.mark.parametrize("session_epoch", [-1, 0])
def test_a_missing_topic_id_is_unknown(wire: WireClient, session_epoch: int) -> None:
    answer = wire.call(FETCH, 13, **fields_by_id(uuid.uuid4(), session_epoch=session_epoch))
    refused = fetched(answer.responses[0].partitions[0])
    assert (code(answer.error_code), refused) == ("0", f"100 UNKNOWN_TOPIC_ID; {NOTHING}")


@pytest.mark.row(111)
def test_a_leader_epoch_that_the_broker_does_not_know_is_refused(
    wire: WireClient, three_batches: str
) -> None:
    answer = fetched(wire.fetch(three_batches, 0, current_leader_epoch=5))
    assert answer == f"75 UNKNOWN_LEADER_EPOCH; {NOTHING}"


@pytest.mark.row(111)
def test_no_leader_epoch_is_no_check(wire: WireClient, three_batches: str) -> None:
    answer = wire.fetch(three_batches, 0, current_leader_epoch=-1)
    assert code(answer.error_code) == "0"


@pytest.mark.row(112)
def test_an_unknown_session_is_refused(wire: WireClient, three_batches: str) -> None:
    fields = fetch_fields(three_batches, 0, session_id=12345, session_epoch=1)
    assert code(wire.call(FETCH, 11, **fields).error_code) == "70 FETCH_SESSION_ID_NOT_FOUND"


@pytest.mark.row(113)
def test_a_wrong_epoch_of_a_session_is_refused(wire: WireClient, three_batches: str) -> None:
    fields = fetch_fields(three_batches, 0)
    session_id = wire.call(FETCH, 11, **{**fields, "session_epoch": 0}).session_id
    answer = wire.call(FETCH, 11, **{**fields, "session_id": session_id, "session_epoch": 7})
    assert session_id != 0
    assert code(answer.error_code) == "71 INVALID_FETCH_SESSION_EPOCH"


@pytest.mark.row(114)
def test_a_session_tells_only_what_is_new(wire: WireClient, three_batches: str) -> None:
    full = wire.call(FETCH, 11, **fetch_fields(three_batches, 15, session_epoch=0))
    again = {"max_wait": 0, "min_bytes": 1, "session_id": full.session_id}
    nothing = wire.call(FETCH, 11, session_epoch=1, **again)
    assert (code(nothing.error_code), nothing.responses) == ("0", ())

    assert wire.produce(three_batches, BATCH) == stored_at(15)
    new = wire.call(FETCH, 11, session_epoch=2, **again)
    assert first_batch(new.responses[0].partitions[0].records)["base_offset"] == 15


@pytest.mark.row(117)
def test_a_last_fetched_epoch_that_never_was_is_out_of_range(
    wire: WireClient, three_batches: str
) -> None:
    answer = wire.fetch(three_batches, 5, 12, last_fetched_epoch=9)
    assert code(answer.error_code) == "1 OFFSET_OUT_OF_RANGE"
    assert not answer.records


@pytest.mark.row(118)
def test_a_replica_that_is_not_assigned_is_refused(
    wire: WireClient, three_batches: str, either: Callable[[str, str], str]
) -> None:
    answer = fetched(wire.fetch(three_batches, 0, replica_id=55))
    # kbroker is alone here, and answers a broker as Apache Kafka answers one without rights.
    refusal = either("29 TOPIC_AUTHORIZATION_FAILED", "6 NOT_LEADER_OR_FOLLOWER")
    assert answer == f"{refusal}; {NOTHING}"


def test_a_replica_that_knows_the_epoch_may_be_news(
    wire: WireClient, three_batches: str, either: Callable[[str, str], str]
) -> None:
    answer = fetched(wire.fetch(three_batches, 0, replica_id=55, current_leader_epoch=0))
    refusal = either("29 TOPIC_AUTHORIZATION_FAILED", "75 UNKNOWN_LEADER_EPOCH")
    assert answer == f"{refusal}; {NOTHING}"


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_returns_the_same_records(
    wire: WireClient, three_batches: str, version: int
) -> None:
    answer = wire.fetch(three_batches, 5, version)
    assert len(answer.records) == 2 * len(BATCH)
    assert first_batch(answer.records)["base_offset"] == 5


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_with_topic_ids_returns_the_same_records(
    wire: WireClient, three_batches: str, version: int
) -> None:
    topics = [{"topic_id": uuid.UUID(int=0), "name": three_batches}]
    topic_id = wire.call(3, 12, topics=topics).topics[0].topic_id
    answer = wire.call(FETCH, version, **fields_by_id(topic_id))
    assert len(answer.responses[0].partitions[0].records) == 3 * len(BATCH)
