"""What the log tells of requests that were refused."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.context import RequestContext
from kbroker.apis.refusal_table import (
    LOOKED_AT_MAX,
    deciding_settings,
    is_told,
    look_for_codes,
    refused_entries,
)
from kbroker.apis.refused_requests import RefusedRequests, told
from kbroker.apis.registry import registered
from kbroker.config.kafka_config import KafkaConfig, config_key
from kbroker.config.topic_config import TopicConfig, topic_config_key
from kbroker.errors import ErrorCode
from kbroker.events.partition_events import AppendRefused
from kbroker.line_fields import ATTRIBUTE
from kbroker.model import TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.request import OWN_SOFTWARE, NoResponse
from kbroker.protocol.schema import Message
from kbroker.rare_lines import AGAIN_AFTER_MS
from tests.fakes.clusters.replication_cluster import batch
from tests.fakes.requests.api_context import ApiCaller
from tests.fakes.requests.denying_authorizer import DenyingAuthorizer, answer_to
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.virtual_time import VirtualTime

CLIENT_SETTINGS = {"session.timeout.ms", "max.poll.interval.ms"}
CASES = [(key, code) for key in ApiKey for code in ErrorCode if deciding_settings(key, code)]


class Log:
    """The refusals of a broker with some settings."""

    def __init__(self, caplog: pytest.LogCaptureFixture, **settings: str) -> None:
        caplog.set_level(logging.INFO)
        self._caplog = caplog
        self.time = VirtualTime()
        config = KafkaConfig({name.replace("_", "."): text for name, text in settings.items()})
        own = TopicConfig.from_overrides(config, {"max.message.bytes": "77"})
        self.kept: list[AppendRefused] = []
        self.refusals = RefusedRequests(
            self.time, lambda: config, lambda _topic: own, self.kept.append
        )
        self.connection = local_connection()

    def tell(self, request: Message, answer: Message, client_id: str | None = "app") -> list[str]:
        """The lines that an answer adds."""
        assert request.spec.key is not None
        self._caplog.clear()
        header = RequestHeader(request.spec.key, 0, 1, client_id)
        self.refusals.tell(header, self.connection, request, answer)
        return self._caplog.messages


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def produced(code: int, *partitions: int, topic: str = "t", text: str | None = None) -> Any:
    return ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name=topic,
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(
                        index=index, error_code=code, error_message=text
                    )
                    for index in partitions
                ],
            )
        ]
    )


def described(code: int, *names: str) -> Any:
    topics = [MetadataResponse.MetadataResponseTopic(name=n, error_code=code) for n in names]
    return MetadataResponse(topics=topics)


def test_a_line_names_client_address_api_partition_code_and_the_setting_of_the_topic(
    log: Log,
) -> None:
    log.connection.client_software_name = "librdkafka"
    log.connection.client_software_version = "2.16"

    assert log.tell(ProduceRequest(), produced(ErrorCode.MESSAGE_TOO_LARGE, 3)) == [
        "Produce of 't-3' was refused to client 'app' at 127.0.0.1:50000 (librdkafka 2.16): "
        "MESSAGE_TOO_LARGE (max.message.bytes=77)"
    ]


def test_a_refused_append_has_fields_and_is_kept_for_its_partition(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = log.tell(ProduceRequest(), produced(ErrorCode.CORRUPT_MESSAGE, 3, 4))

    (record,) = caplog.records
    assert getattr(record, ATTRIBUTE) == {
        "event": "append_refused",
        "client_id": "app",
        "api": "Produce",
        "version": 0,
        "topic": "t",
        "partition": 3,
        "code": "CORRUPT_MESSAGE",
    }
    (kept,) = log.kept
    assert (kept.topic_partition, kept.sentence()) == (TopicPartition("t", 3), line)


def test_other_refusals_have_fields_and_are_not_kept(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.tell(MetadataRequest(), described(ErrorCode.INVALID_TOPIC_EXCEPTION, "t-1"), None)

    (record,) = caplog.records
    assert getattr(record, ATTRIBUTE) == {
        "event": "request_refused",
        "api": "Metadata",
        "version": 0,
        "code": "INVALID_TOPIC_EXCEPTION",
    }
    assert log.kept == []


def test_a_client_that_logged_in_is_told_with_its_principal(log: Log) -> None:
    log.connection.principal = "User:ann"

    (line,) = log.tell(MetadataRequest(), described(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t"))

    assert line.endswith(" at 127.0.0.1:50000 as 'User:ann': TOPIC_AUTHORIZATION_FAILED")


def test_the_partitions_of_a_topic_are_one_line_and_the_next_one_counts_them(log: Log) -> None:
    answer = produced(ErrorCode.MESSAGE_TOO_LARGE, 0, 1, 2)

    assert len(log.tell(ProduceRequest(), answer)) == 1
    assert log.tell(ProduceRequest(), answer) == []
    log.time.advance(int(AGAIN_AFTER_MS))
    (line,) = log.tell(ProduceRequest(), answer)
    assert line.endswith("; similar lines left out: 5")


@pytest.mark.parametrize(
    ("enabled", "why"),
    [("true", "the client asked not to create it"), ("false", "auto.create.topics.enable=false")],
)
def test_a_missing_topic_says_why_it_was_not_created(
    enabled: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log(caplog, auto_create_topics_enable=enabled)
    answer = described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")

    (line,) = log.tell(MetadataRequest(), answer)

    assert line.startswith("Metadata of 'gone' was refused to ")
    assert line.endswith(f": UNKNOWN_TOPIC_OR_PARTITION ({why})")


def test_a_commit_names_partition_and_group_and_what_the_client_can_do(log: Log) -> None:
    answer = OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name="t",
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=1, error_code=ErrorCode.ILLEGAL_GENERATION
                    )
                ],
            )
        ]
    )

    (line,) = log.tell(OffsetCommitRequest(group_id="billing"), answer)

    assert line.startswith("OffsetCommit of 't-1' for 'billing' was refused to client 'app' ")
    assert line.endswith(
        ": ILLEGAL_GENERATION (the client's session.timeout.ms, the client's max.poll.interval.ms)"
    )


def test_what_clients_send_can_neither_break_a_line_nor_make_it_long(log: Log) -> None:
    evil = "\n2026 ERROR root: \x1b[31mgone\u2028" * 1_000
    answer = produced(ErrorCode.INVALID_RECORD, 0, topic=evil, text=evil)
    log.connection.client_software_name = "s" * 10_000

    (line,) = log.tell(ProduceRequest(transactional_id=evil), answer, client_id=evil)

    assert line.isprintable()
    assert len(line) < 2_500


def test_a_topic_that_one_of_our_own_commands_looks_for_is_not_told(log: Log) -> None:
    log.connection.client_software_name = OWN_SOFTWARE
    absent = described(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "t")

    assert log.tell(MetadataRequest(allow_auto_topic_creation=False), absent) == []
    assert log.tell(MetadataRequest(), described(ErrorCode.INVALID_TOPIC_EXCEPTION, "a b"))
    assert log.tell(ProduceRequest(), produced(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0))


def test_software_without_a_version_is_told_by_its_name(log: Log) -> None:
    log.connection.client_software_name = OWN_SOFTWARE

    (line,) = log.tell(ProduceRequest(), produced(ErrorCode.MESSAGE_TOO_LARGE, 3))

    assert f" at 127.0.0.1:50000 ({OWN_SOFTWARE}): MESSAGE_TOO_LARGE" in line


@pytest.mark.parametrize("client_id", [None, ""])
def test_a_client_without_an_id_is_told_by_its_address(log: Log, client_id: str | None) -> None:
    answer = described(ErrorCode.INVALID_TOPIC_EXCEPTION, "a b")

    (line,) = log.tell(MetadataRequest(), answer, client_id)

    assert " was refused to a client at 127.0.0.1:50000: " in line


def test_what_another_broker_passed_on_is_told_by_that_one(log: Log) -> None:
    log.connection = replace(local_connection(), is_forwarded=True)

    assert log.tell(ProduceRequest(), produced(ErrorCode.MESSAGE_TOO_LARGE, 0)) == []


def test_a_code_of_a_newer_kafka_is_told_by_its_number(log: Log) -> None:
    (line,) = log.tell(ProduceRequest(), produced(999, 0))

    assert line.endswith(": CODE_999")


def test_what_ordinary_clients_are_told_all_day_is_not_in_the_log(log: Log) -> None:
    moved = described(ErrorCode.LEADER_NOT_AVAILABLE, "t")
    request = HeartbeatRequest(group_id="g")

    assert log.tell(MetadataRequest(), moved) == []
    assert log.tell(request, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)) == []
    assert log.tell(request, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)) == []
    assert len(log.tell(request, HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))) == 1


def test_codes_of_leaders_inside_metadata_are_not_looked_at() -> None:
    topic = MetadataResponse.MetadataResponseTopic(
        name="t",
        partitions=[MetadataResponse.MetadataResponsePartition(error_code=5)] * LOOKED_AT_MAX,
    )
    missing = MetadataResponse.MetadataResponseTopic(name="gone", error_code=3)

    found = refused_entries(MetadataResponse(topics=[topic, missing]))

    assert [(refused.what, refused.code) for refused in found] == [("gone", 3)]


def test_entries_are_looked_at_up_to_a_bound() -> None:
    answer = produced(10, *range(2 * LOOKED_AT_MAX))

    assert sum(1 for _ in refused_entries(answer)) == LOOKED_AT_MAX - 1  # one for the topic


def test_a_code_at_the_end_of_any_answer_is_seen() -> None:
    look = look_for_codes(ProduceResponse)

    for size in (1, 2, 32, 33, 100):
        answer = produced(0, *range(size))
        answer.responses[0].partition_responses[-1].error_code = 10
        assert look(answer)


def test_a_topic_without_a_name_is_told_by_its_id() -> None:
    answer = produced(100, 4, topic="")
    answer.responses[0].topic_id = UUID(int=7)

    (found,) = refused_entries(answer)

    assert found.what == "unknown topic id AAAAAAAAAAAAAAAAAAAABw-4"


def test_the_other_name_of_a_code_is_known() -> None:
    result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
        partition_index=2, partition_error_code=3
    )
    topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
        name="t", results_by_partition=[result]
    )

    found = list(refused_entries(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])))

    assert [(refused.what, refused.code) for refused in found] == [("t-2", 3)]


@pytest.mark.parametrize("key", sorted(registered()), ids=lambda key: ApiKey(key).name)
def test_a_refusal_of_everything_is_found_in_the_answers_of_every_api(key: int) -> None:
    request_class = registered()[key].request_class
    request = request_class()
    served = request_class.spec.served

    for version in range(served.lowest, served.highest + 1):
        answer = request.error_response(ErrorCode.INVALID_REQUEST, version)
        codes = [code for code in error_codes(answer) if code]
        assert [refused.code for refused in refused_entries(answer)] == codes
        assert bool(look_for_codes(type(answer))(answer)) == bool(codes)
        granted = request.error_response(ErrorCode.NONE, version)
        assert not look_for_codes(type(granted))(granted)


@pytest.mark.parametrize(("key", "code"), CASES)
def test_settings_that_decide_are_those_of_told_codes_and_exist(key: ApiKey, code: int) -> None:
    assert is_told(key, code)
    for name in deciding_settings(key, code):
        assert topic_config_key(name) or config_key(name) or name in CLIENT_SETTINGS


def test_a_handler_is_told_of_when_its_answer_is_there(log: Log) -> None:
    answers: list[Any] = [
        described(ErrorCode.INVALID_TOPIC_EXCEPTION, "a b"),
        described(ErrorCode.NONE, "a"),
        NoResponse(),
    ]
    heard: list[Any] = []

    class Context:
        def tell_refusals(self, request: Message, answer: Message) -> None:
            heard.append(answer)

    handler = told(ApiKey.METADATA, MetadataResponse, lambda ctx, request: answers[request])

    assert [handler(Context(), number) for number in range(3)] == answers
    assert heard == answers[:1]


def test_what_clients_send_all_the_time_tells_itself() -> None:
    def handler(ctx: RequestContext, request: Message) -> None:
        """Answer."""

    assert told(ApiKey.PRODUCE, ProduceResponse, handler) is handler
    assert told(ApiKey.FETCH, ProduceResponse, handler) is handler
    assert told(ApiKey.OFFSET_COMMIT, ProduceResponse, handler) is handler
    assert told(ApiKey.HEARTBEAT, ProduceResponse, handler) is handler


def appended_told(
    cluster: Any, request: Any, version: int, caplog: Any, **around: Any
) -> list[str]:
    """Send a request through all stages; what the log tells of it."""
    log = Log(caplog)
    services = replace(ApiCaller(cluster).services, refusals=log.refusals, **around)
    cluster.loop.run_until_complete(answer_to(services, request, version))
    return [
        line.partition(" was refused ")[0] + line.rpartition(":")[2] for line in caplog.messages
    ]


@pytest.mark.parametrize("acks", [0, 1])
def test_a_produce_to_a_missing_partition_is_told(
    cluster: Any, caplog: pytest.LogCaptureFixture, acks: int
) -> None:
    data = ProduceRequest.PartitionProduceData(index=5, records=batch())
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])

    assert appended_told(cluster, request, 9, caplog) == [
        "Produce of 't-5' UNKNOWN_TOPIC_OR_PARTITION"
    ]


def fetched(topic: str, replica_id: int = -1) -> FetchRequest:
    partition = FetchRequest.FetchPartition(partition=2, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(replica_id=replica_id, max_bytes=1 << 20, topics=topics)


def test_a_fetch_of_a_missing_partition_is_told(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert appended_told(cluster, fetched("t"), 11, caplog) == [
        "Fetch of 't-2' UNKNOWN_TOPIC_OR_PARTITION"
    ]


def test_what_a_client_may_not_do_is_told_without_the_handler(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    denied = DenyingAuthorizer((AclOperation.WRITE, AclResource(AclResourceType.TOPIC, "t")))
    data = ProduceRequest.PartitionProduceData(index=0, records=batch())
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])

    assert appended_told(cluster, request, 9, caplog, authorizer=denied) == [
        "Produce of 't-0' TOPIC_AUTHORIZATION_FAILED"
    ]


def test_a_request_that_is_refused_as_a_whole_is_told_with_its_reason(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=None)])

    assert appended_told(cluster, request, 10, caplog) == [
        "Metadata Topics are asked for by name in version 10"
    ]
