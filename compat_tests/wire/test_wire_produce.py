"""Produce: which batches are stored, how the others are refused, and what is stored of them."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable

import pytest

from compat_tests.clients.raw_connection import ClosedError
from compat_tests.conftest import BrokerProcess
from compat_tests.wire.record_bytes import (
    CONTROL,
    GZIP,
    LOG_APPEND_TIME,
    ONE,
    TRANSACTIONAL,
    ZSTD,
    Batch,
    batch,
    compressed_batch,
    first_batch,
    old_message,
    plain_records,
)
from compat_tests.wire.wire_client import (
    METADATA,
    PRODUCE,
    REFUSED,
    REFUSED_BY_LOG,
    WireClient,
    code,
    fetched,
    produce_fields,
    produced,
    stored_at,
)

Either = Callable[[str, str], str]

NO_SUCH_PARTITION = f"3 UNKNOWN_TOPIC_OR_PARTITION; {REFUSED}"
INVALID_ACKS = f"21 INVALID_REQUIRED_ACKS; {REFUSED}"
INVALID_RECORD = f"87 INVALID_RECORD; {REFUSED}"
CORRUPT = f"2 CORRUPT_MESSAGE; {REFUSED}"
TOO_LARGE = f"10 MESSAGE_TOO_LARGE; {REFUSED}"


@pytest.fixture
def made(wire: WireClient) -> str:
    """A topic of one partition."""
    return wire.create_topic()


@pytest.mark.row(13)
def test_produce_to_a_missing_topic_does_not_create_it(wire: WireClient, topic: str) -> None:
    assert wire.produce(topic, batch()) == NO_SUCH_PARTITION
    assert code(wire.metadata(topic).error_code) == "3 UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.row(14)
def test_produce_to_a_missing_topic_is_refused_without_auto_creation(
    own_broker: Callable[..., BrokerProcess], topic: str
) -> None:
    wire = WireClient(own_broker("--override", "auto.create.topics.enable=false").bootstrap)
    assert wire.produce(topic, batch()) == NO_SUCH_PARTITION
    wire.close()


@pytest.mark.row(15)
def test_produce_to_a_missing_partition_is_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, batch(), partition=5) == NO_SUCH_PARTITION


@pytest.mark.row(15)
def test_one_missing_partition_does_not_spoil_the_others(wire: WireClient, made: str) -> None:
    answers = wire.produce_answers(made, [(5, batch()), (0, batch())], 7)
    assert sorted(answers) == [stored_at(0), NO_SUCH_PARTITION]


@pytest.mark.row(16, 17, 18)
@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_other_than_all_one_and_none_are_refused(
    wire: WireClient, made: str, acks: int
) -> None:
    assert wire.produce(made, batch(), acks=acks) == INVALID_ACKS


@pytest.mark.row(19)
def test_acks_0_is_stored_and_not_answered(wire: WireClient, made: str) -> None:
    wire.send(PRODUCE, 7, **produce_fields(made, [(0, batch())], acks=0))
    assert wire.metadata(made).name == made
    assert fetched(wire.fetch(made, 0)) == "0; hw=1; lso=1; log_start=0; records=70 bytes"


@pytest.mark.row(20)
def test_acks_0_to_a_missing_partition_closes_the_connection(wire: WireClient, made: str) -> None:
    wire.send(PRODUCE, 7, **produce_fields(made, [(9, batch())], acks=0))
    with pytest.raises(ClosedError):
        wire.call(METADATA, 8, topics=[])


@pytest.mark.row(21, 58)
@pytest.mark.parametrize("version", [7, 8])
def test_a_batch_larger_than_the_topic_allows_is_refused(wire: WireClient, version: int) -> None:
    topic = wire.create_topic(configs={"max.message.bytes": "1000"})
    assert wire.produce(topic, batch(value_bytes=5000), version) == TOO_LARGE


@pytest.mark.row(22)
def test_max_message_bytes_counts_the_whole_batch(wire: WireClient) -> None:
    records = batch(value_bytes=500)
    equal = wire.create_topic(configs={"max.message.bytes": str(len(records))})
    one_less = wire.create_topic(configs={"max.message.bytes": str(len(records) - 1)})
    assert wire.produce(equal, records) == stored_at(0)
    assert wire.produce(one_less, records) == TOO_LARGE


@pytest.mark.row(23, 24)
@pytest.mark.parametrize("version", [7, 9])
def test_a_wrong_crc_is_refused(wire: WireClient, made: str, version: int) -> None:
    assert wire.produce(made, Batch(crc_mask=1).to_bytes(), version) == CORRUPT


@pytest.mark.row(25, 26)
@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_an_old_format_are_refused(wire: WireClient, made: str, magic: int) -> None:
    assert wire.produce(made, old_message(magic), acks=1) == INVALID_RECORD


@pytest.mark.row(27)
def test_a_message_of_format_1_is_refused_in_version_3_too(wire: WireClient, made: str) -> None:
    refused = "87 INVALID_RECORD; base_offset=-1; log_append_time=-1"
    assert wire.produce(made, old_message(1), 3, acks=1) == refused


@pytest.mark.row(32)
def test_a_batch_of_a_future_format_is_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, Batch(magic=3).to_bytes()) == CORRUPT


@pytest.mark.row(33)
def test_empty_records_are_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, b"") == INVALID_RECORD


@pytest.mark.row(34)
def test_null_records_are_refused_with_an_answer(
    wire: WireClient, made: str, is_kafka: bool
) -> None:
    correlation_id = wire.send(PRODUCE, 7, **produce_fields(made, [(0, None)]))
    if is_kafka:
        assert wire.what_comes(1) == "silence"
    else:
        answer = wire.receive(PRODUCE, 7, correlation_id)
        assert produced(answer.responses[0].partition_responses[0]) == INVALID_RECORD


@pytest.mark.row(35)
def test_two_batches_for_one_partition_are_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, batch() + batch()) == INVALID_RECORD


@pytest.mark.row(36)
def test_a_partition_named_twice_is_written_once(wire: WireClient, made: str) -> None:
    assert wire.produce_answers(made, [(0, batch()), (0, batch())], 7) == [stored_at(0)]
    assert wire.fetch(made, 0).high_watermark == 1


@pytest.mark.row(37)
def test_a_batch_cut_short_is_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, batch()[:-5]) == INVALID_RECORD


@pytest.mark.row(38)
def test_garbage_is_refused(wire: WireClient, made: str) -> None:
    assert wire.produce(made, b"\xff" * 20) == CORRUPT


@pytest.mark.row(39)
def test_more_records_announced_than_sent_are_refused(wire: WireClient) -> None:
    topic = wire.create_topic()
    lying = Batch(record_count=3, last_offset_delta=2).to_bytes()
    assert wire.produce(topic, lying) == f"87 INVALID_RECORD; {REFUSED_BY_LOG}"


@pytest.mark.row(40)
def test_a_last_offset_that_does_not_fit_the_record_count_is_refused(
    wire: WireClient, made: str
) -> None:
    lying = Batch(last_offset_delta=5).to_bytes()
    assert wire.produce(made, lying, 8) == f"87 INVALID_RECORD; {REFUSED_BY_LOG}"


@pytest.mark.row(41)
def test_an_unknown_codec_is_named_as_such(wire: WireClient, either: Either) -> None:
    topic = wire.create_topic()
    answer = wire.produce(topic, Batch(attributes=5).to_bytes())
    assert answer.partition(";")[0] == either(
        "76 UNSUPPORTED_COMPRESSION_TYPE", "-1 UNKNOWN_SERVER_ERROR"
    )


@pytest.mark.row(42)
def test_a_payload_that_is_not_what_the_codec_says_is_refused(
    wire: WireClient, either: Either
) -> None:
    topic = wire.create_topic()
    answer = wire.produce(topic, Batch(attributes=GZIP).to_bytes(), 8)
    assert answer.partition(" (")[0].partition(";")[0] == either(
        "87 INVALID_RECORD", "-1 UNKNOWN_SERVER_ERROR"
    )


# One record: length 8, attributes, timestamp and offset delta, key "k", value "v", no headers.
GOOD_RECORD = plain_records(ONE)


def test_a_record_of_endless_length_is_refused(wire: WireClient, either: Either) -> None:
    endless = Batch(payload=b"\x80" * 6 + GOOD_RECORD).to_bytes()
    answer = wire.produce(wire.create_topic(), endless, 8)
    assert answer.startswith(either("87 INVALID_RECORD", "-1 UNKNOWN_SERVER_ERROR"))


@pytest.mark.parametrize("codec", [1, 2, 3, 4], ids=["gzip", "snappy", "lz4", "zstd"])
def test_a_broken_payload_of_any_codec_is_refused(
    wire: WireClient, only_kbroker: None, codec: int
) -> None:
    topic = wire.create_topic()
    broken = Batch(attributes=codec, payload=b"\x55" * 100).to_bytes()
    assert wire.produce(topic, broken, 8).startswith("87 INVALID_RECORD")


def test_a_small_batch_that_unpacks_to_much_is_stored(wire: WireClient, made: str) -> None:
    bomb = compressed_batch(ZSTD, ((None, b"\0" * (65 << 20)),))
    assert len(bomb) < 100_000
    assert wire.produce(made, bomb, 8).startswith("0; base_offset=0")


@pytest.mark.row(43)
def test_zstd_is_refused_before_version_7(wire: WireClient, made: str) -> None:
    refused = f"76 UNSUPPORTED_COMPRESSION_TYPE; {REFUSED}"
    assert wire.produce(made, compressed_batch(ZSTD), 6) == refused


@pytest.mark.row(44, 45)
def test_zstd_is_stored_and_handed_to_old_consumers_too(wire: WireClient, made: str) -> None:
    records = compressed_batch(ZSTD)
    assert wire.produce(made, records) == stored_at(0)
    answer = fetched(wire.fetch(made, 0, 9))
    assert answer == f"0; hw=1; lso=1; log_start=0; records={len(records)} bytes"


@pytest.mark.row(46)
def test_a_record_without_key_does_not_fit_a_compacted_topic(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"cleanup.policy": "compact"})
    reason = f"Compacted topic cannot accept message without key in topic partition {topic}-0"
    assert wire.produce(topic, Batch(pairs=((None, b"v"),)).to_bytes(), 8) == (
        "87 INVALID_RECORD (One or more records have been rejected due to 1 record errors in total, "
        "and only showing the first three errors at most: "
        f"[RecordError(batchIndex=0, message='{reason}')]); "
        f"{REFUSED_BY_LOG}; record_errors=[(0, '{reason}')]"
    )


@pytest.mark.row(47)
def test_a_timestamp_in_the_future_is_stored(wire: WireClient, made: str, is_kafka: bool) -> None:
    in_two_hours = int(time.time() * 1000) + 7_200_000
    answer = wire.produce(made, batch(timestamp_ms=in_two_hours), 8)
    if is_kafka:
        assert answer.startswith("32 INVALID_TIMESTAMP")
    else:
        assert answer == stored_at(0)


@pytest.mark.row(48)
def test_a_timestamp_older_than_the_topic_allows_is_refused(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"message.timestamp.before.max.ms": "1000"})
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    answer = wire.produce(topic, batch(timestamp_ms=an_hour_ago), 8)
    assert re.sub(r"-?\d{10,}", "TS", answer) == (
        "32 INVALID_TIMESTAMP (One or more records have been rejected due to invalid timestamp); "
        f"{REFUSED_BY_LOG}; record_errors=[(0, 'Timestamp TS of message with offset 0 is out of range. "
        "The timestamp should be within [TS, TS]')]"
    )


@pytest.mark.row(49)
def test_a_record_without_timestamp_is_stored_and_not_found_by_time(
    wire: WireClient, made: str
) -> None:
    assert wire.produce(made, batch(timestamp_ms=-1), 8) == stored_at(0)
    assert wire.list_offsets(made, 0).startswith("0 offset=-1 ")
    assert wire.list_offsets(made, -3).startswith("0 offset=0 ")


@pytest.mark.row(50)
def test_log_append_time_is_answered_and_stored(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"message.timestamp.type": "LogAppendTime"})
    answer = wire.produce(topic, batch(timestamp_ms=1_000))
    stored = first_batch(wire.fetch(topic, 0).records)
    assert answer == "0; base_offset=0; log_append_time=set; log_start=0"
    assert (stored["attributes"], stored["base_timestamp"]) == (LOG_APPEND_TIME, 1_000)
    assert abs(stored["max_timestamp"] - time.time() * 1000) < 60_000


@pytest.mark.row(51)
def test_a_topic_of_one_replica_is_written_whatever_min_insync_replicas_says(
    wire: WireClient,
) -> None:
    topic = wire.create_topic(configs={"min.insync.replicas": "2"})
    assert wire.produce(topic, batch(), acks=-1) == stored_at(0)
    assert wire.produce(topic, batch(), acks=1) == stored_at(1)


@pytest.mark.row(52)
def test_clients_may_not_write_group_offsets_themselves(wire: WireClient) -> None:
    wire.wait_for_coordinator("any")
    refused = f"17 INVALID_TOPIC_EXCEPTION; {REFUSED}"
    assert wire.produce("__consumer_offsets", batch()) == refused


@pytest.mark.row(53)
def test_a_control_batch_of_a_client_is_refused(wire: WireClient, made: str) -> None:
    control = Batch(attributes=CONTROL)
    answer = wire.produce(made, control.to_bytes(), 8)
    assert answer == f"87 INVALID_RECORD; {REFUSED_BY_LOG}"


@pytest.mark.row(53, 79)
@pytest.mark.parametrize("attributes", [TRANSACTIONAL, TRANSACTIONAL | CONTROL])
def test_a_transactional_batch_without_a_transactional_id_is_refused(
    wire: WireClient, made: str, attributes: int
) -> None:
    sent = Batch(attributes=attributes, producer_id=1, producer_epoch=0, base_sequence=0)
    refused = f"53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED; {REFUSED}"
    assert wire.produce(made, sent.to_bytes(), 8) == refused


@pytest.mark.row(54)
def test_the_leader_epoch_of_a_client_is_overwritten(wire: WireClient, made: str) -> None:
    assert wire.produce(made, Batch(leader_epoch=9).to_bytes()) == stored_at(0)
    stored = first_batch(wire.fetch(made, 0).records)
    assert (stored["base_offset"], stored["leader_epoch"]) == (0, 0)


@pytest.mark.row(55)
def test_a_base_offset_other_than_0_is_refused(wire: WireClient, made: str) -> None:
    answer = wire.produce(made, Batch(base_offset=77).to_bytes())
    assert answer == f"87 INVALID_RECORD; {REFUSED_BY_LOG}"
    assert wire.fetch(made, 0).high_watermark == 0


@pytest.mark.row(56)
def test_a_topic_with_a_codec_of_its_own_stores_that_codec(wire: WireClient) -> None:
    topic = wire.create_topic(configs={"compression.type": "gzip"})
    assert wire.produce(topic, batch()) == stored_at(0)
    assert first_batch(wire.fetch(topic, 0).records)["attributes"] == GZIP


@pytest.mark.row(57)
def test_an_unknown_topic_id_is_refused(wire: WireClient) -> None:
    topics = [{"topic_id": uuid.uuid4(), "partition_data": [{"index": 0, "records": batch()}]}]
    answer = wire.call(PRODUCE, 13, acks=-1, timeout=10_000, topic_data=topics)
    refused = produced(answer.responses[0].partition_responses[0])
    assert refused == f"100 UNKNOWN_TOPIC_ID; {REFUSED}"


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_stores_a_batch_and_gives_it_back_unchanged(
    wire: WireClient, made: str, version: int
) -> None:
    sent = Batch(pairs=ONE * 3).to_bytes()
    assert wire.produce(made, sent, version).startswith("0; base_offset=0; log_append_time=-1")
    stored = wire.fetch(made, 0).records
    # Base offset and leader epoch are the broker's; all other bytes are the client's.
    assert (stored[8:12], stored[16:]) == (sent[8:12], sent[16:])
