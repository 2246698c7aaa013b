from __future__ import annotations

import pytest

from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.produce import handle
from kbroker.apis.produce_validation import is_transactional, refusal
from kbroker.apis.registry import registered
from kbroker.errors import ErrorCode
from kbroker.log.producers.log_append_info import InvalidRecordsError, RecordError
from kbroker.model import TopicPartition
from kbroker.protocol.codec import encode
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Accepted, NoResponse, Request
from tests.fakes.clusters.replication_cluster import batch, topic_id_of
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.requests.request_frames import CORRELATION_ID, frame_of

TRANSACTIONAL = 0x10
ZSTD = 4


def produce(*records, topic="t", acks=1, transactional_id=None, partitions=None, timeout_ms=1000):
    indexes = partitions or range(len(records))
    data = [
        ProduceRequest.PartitionProduceData(index=index, records=view)
        for index, view in zip(indexes, records, strict=True)
    ]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic, topic_id=topic_id_of(topic), partition_data=data
            )
        ],
    )


def only(response):
    (topic,) = response.responses
    (partition,) = topic.partition_responses
    return partition


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_answers(cluster, call, version):
    cluster.lead("t")

    response = call(handle, produce(batch()), version)

    assert (only(response).error_code, only(response).base_offset) == (0, 0)
    assert encode(response, version)


@pytest.mark.parametrize(("version", "origin"), [(0, 3), (2, 3), (3, 2), (13, 2)])
def test_old_versions_append_as_old_clients(cluster, call, version, origin):
    log = cluster.lead("t").log
    seen = []
    append = log.append_as_leader
    log.append_as_leader = lambda *args, **values: (
        seen.append(values["origin"]) or append(*args, **values)
    )

    response = call(handle, produce(batch()), version)

    assert seen == [origin]
    assert encode(response, version)


@pytest.mark.parametrize(("version", "code"), [(2, 0), (3, 76), (6, 76), (7, 0)])
def test_zstd_is_refused_between_the_versions_that_do_not_look_and_those_that_know(
    cluster, call, version, code
):
    cluster.lead("t")

    assert only(call(handle, produce(batch(compression=ZSTD)), version)).error_code == code


@pytest.mark.parametrize("version", [0, 2, 7])
def test_internal_topics_are_not_for_clients(cluster, call, version):
    cluster.lead("__consumer_offsets")

    answer = only(call(handle, produce(batch(), topic="__consumer_offsets"), version))

    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_that_mean_nothing_are_refused(cluster, call, acks):
    cluster.lead("t")

    answer = only(call(handle, produce(batch(), acks=acks), 7))

    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)


def test_a_missing_topic_is_not_created(cluster, call):
    answer = only(call(handle, produce(batch()), 7))

    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.base_offset, answer.log_append_time_ms, answer.log_start_offset) == (-1, -1, -1)
    assert call.topics.asked == []


def test_acks_0_has_no_answer(cluster, call):
    partition = cluster.lead("t")

    answer = call(handle, produce(batch(), acks=0), 7)

    assert answer == NoResponse(close=False)
    assert partition.log_end_offset == 1


def test_acks_0_with_an_error_closes_the_connection(cluster, call):
    assert call(handle, produce(batch(), acks=0), 7) == NoResponse(close=True)


def test_null_records_are_answered(cluster, call):
    cluster.lead("t")

    answer = only(call(handle, produce(None), 8))

    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert answer.error_message == "The partition has no records"


def test_empty_records_are_invalid(cluster, call):
    cluster.lead("t")

    answer = only(call(handle, produce(memoryview(bytearray())), 7))

    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_RECORD, -1)


def test_a_partition_named_twice_is_appended_once_with_the_last_records(cluster, call):
    partition = cluster.lead("t")
    twice = produce(batch(b"first"), batch(b"last"), partitions=[0, 0])

    answer = only(call(handle, twice, 7))

    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert b"last" in partition.log.batches[0][2]
    assert partition.log_end_offset == 1


@pytest.mark.parametrize("version", [7, 13])
def test_a_topic_named_twice_has_one_entry(cluster, call, version):
    cluster.lead("t", 0)
    cluster.lead("t", 1)
    request = produce(batch(b"a"), partitions=[0])
    request.topic_data += produce(batch(b"b"), partitions=[1]).topic_data

    (topic,) = call(handle, request, version).responses

    assert [(p.index, p.error_code) for p in topic.partition_responses] == [(0, 0), (1, 0)]


def test_a_topic_without_partitions_has_no_entry(cluster, call):
    cluster.lead("t")

    assert call(handle, produce(), 7).responses == []


@pytest.mark.parametrize(
    ("version", "code"), [(6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), (7, ErrorCode.NONE)]
)
def test_zstd_needs_version_7(cluster, call, version, code):
    cluster.lead("t")

    answer = only(call(handle, produce(batch(compression=ZSTD)), version))

    assert answer.error_code == code


def test_a_transactional_batch_without_transactional_id_refuses_the_whole_request(cluster, call):
    partitions = [cluster.lead("t", 0), cluster.lead("t", 1)]

    response = call(handle, produce(batch(), batch(flags=TRANSACTIONAL)), 8)

    codes = [p.error_code for p in response.responses[0].partition_responses]
    assert codes == [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2
    assert [p.log_end_offset for p in partitions] == [0, 0]


@pytest.mark.parametrize(
    ("size", "length", "is_believed"),
    [(61, 49, True), (26, 14, True), (26, 13, False), (61, 50, False), (61, -1, False)],
    ids=["whole", "within its header", "less than any", "behind the end", "negative"],
)
def test_a_batch_that_is_whole_is_believed_to_be_transactional(size, length, is_believed):
    data = bytearray(batch(flags=TRANSACTIONAL))[:size]
    data[8:12] = length.to_bytes(4, "big", signed=True)

    refused = refusal(memoryview(data), 8, transactional_id=None)

    assert refused is (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_believed else None)
    assert is_transactional(memoryview(data)) is is_believed


def test_a_codec_that_needs_a_newer_version_comes_before_the_transaction(cluster, call):
    cluster.lead("t")

    answer = only(call(handle, produce(batch(compression=ZSTD, flags=TRANSACTIONAL)), 6))

    assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_partition_named_twice_that_is_refused_twice_has_one_answer(call):
    transactional = batch(flags=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    request = produce(None, transactional, partitions=[0, 0], transactional_id="x")

    assert only(call(handle, request, 8)).error_code == ErrorCode.INVALID_RECORD


def test_a_transactional_id_without_transactional_batches_is_fine(cluster, call):
    cluster.lead("t")

    assert only(call(handle, produce(batch(), transactional_id="x"), 8)).error_code == 0


def test_an_unknown_topic_id_is_answered_by_id(cluster, call):
    response = call(handle, produce(batch()), 13)

    assert only(response).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert response.responses[0].topic_id == topic_id_of("t")


def test_refused_records_are_listed(cluster, call):
    cluster.lead("t").log.fail_with = InvalidRecordsError(
        ErrorCode.INVALID_RECORD, "rejected", [RecordError(3, "no key")]
    )

    answer = only(call(handle, produce(batch()), 8))

    assert answer.error_message == "rejected"
    errors = [(e.batch_index, e.batch_index_error_message) for e in answer.record_errors]
    assert errors == [(3, "no key")]


@pytest.mark.parametrize(("version", "hints"), [(9, 0), (10, 1), (12, 1)])
def test_a_client_at_the_wrong_broker_learns_who_leads(cluster, call, version, hints):
    cluster.hear_of("t", leader=1, leader_epoch=4, isr=(1,), replicas=(1,))

    response = call(handle, produce(batch()), version)

    assert only(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = only(response).current_leader
    assert (leader.leader_id, leader.leader_epoch) == ((1, 4) if hints else (-1, -1))
    assert [(n.node_id, n.port) for n in response.node_endpoints] == [(1, 9093)] * hints


def test_acks_all_is_answered_when_the_followers_have_the_records(cluster, call):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    answer = call.start(handle, produce(batch(), acks=-1), 7)

    partition.follower_fetched(1, 1, 0, cluster.time.now_ms())
    cluster.replicas.waiting.wake(TopicPartition("t", 0))
    response = cluster.loop.run_until_complete(answer)

    assert (only(response).error_code, only(response).base_offset) == (0, 0)


def test_an_answer_that_waits_does_not_keep_the_records_received(cluster, call):
    partition = cluster.lead("t", isr=(0, 1), replicas=(0, 1))
    received = frame_of(produce(batch(), acks=-1), 9)
    view = memoryview(received)
    header, offset = decode_request_header(view)
    request = Request(header, view, offset, local_connection(), len(received))

    answer = KafkaApis(registered(), call.services).handle(request)
    assert isinstance(answer, Accepted)
    del request, view
    received.clear()  # raises BufferError while anybody has a view of it

    partition.follower_fetched(1, 1, 0, cluster.time.now_ms())
    cluster.replicas.waiting.wake(TopicPartition("t", 0))
    response = answer.finish()
    assert response.pieces[0][:4] == CORRELATION_ID.to_bytes(4, "big")


def test_internal_topics_are_closed_to_clients(cluster, call):
    cluster.lead("__consumer_offsets")

    answer = only(call(handle, produce(batch(), topic="__consumer_offsets"), 7))

    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def test_no_topics_have_no_answers(call):
    assert call(handle, ProduceRequest(acks=1), 7).responses == []
