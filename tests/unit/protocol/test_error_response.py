from __future__ import annotations

from uuid import UUID

from kbroker.errors import ErrorCode
from kbroker.protocol.codec import encode
from kbroker.protocol.error_response import error_codes
from kbroker.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from kbroker.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kbroker.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse

TOPIC_ID = UUID(int=77)


def test_own_error_code_of_the_response_is_enough() -> None:
    answer = HeartbeatRequest().error_response(ErrorCode.NOT_COORDINATOR, 3, throttle_time_ms=20)

    assert answer == HeartbeatResponse(error_code=16, throttle_time_ms=20)


def test_produce_names_every_partition_with_base_offset_minus_one() -> None:
    partitions = [ProduceRequest.PartitionProduceData(index=index) for index in (4, 5)]
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=partitions)

    answer = ProduceRequest(topic_data=[topic]).error_response(
        ErrorCode.INVALID_REQUIRED_ACKS, 8, "acks 7"
    )

    assert answer == ProduceResponse(
        responses=[
            ProduceResponse.TopicProduceResponse(
                name="t",
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(
                        index=index, error_code=21, base_offset=-1, error_message="acks 7"
                    )
                    for index in (4, 5)
                ],
            )
        ]
    )


def test_produce_by_topic_id_answers_by_topic_id() -> None:
    topic = ProduceRequest.TopicProduceData(
        topic_id=TOPIC_ID, partition_data=[ProduceRequest.PartitionProduceData(index=1)]
    )

    answer = ProduceRequest(topic_data=[topic]).error_response(ErrorCode.UNKNOWN_TOPIC_ID, 13)

    assert isinstance(answer, ProduceResponse)
    assert answer.responses[0].topic_id == TOPIC_ID


def test_fetch_before_sessions_names_every_partition() -> None:
    topic = FetchRequest.FetchTopic(
        topic="t", partitions=[FetchRequest.FetchPartition(partition=3, fetch_offset=9)]
    )

    answer = FetchRequest(topics=[topic]).error_response(ErrorCode.UNKNOWN_SERVER_ERROR, 6)

    assert answer == FetchResponse(
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic="t",
                partitions=[
                    FetchResponse.PartitionData(partition_index=3, error_code=-1, high_watermark=-1)
                ],
            )
        ]
    )


def test_fetch_with_sessions_has_one_code() -> None:
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="t")])

    answer = request.error_response(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 7)

    assert answer == FetchResponse(error_code=70)


def test_list_offsets_does_not_echo_the_timestamp_asked_for() -> None:
    partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=2, timestamp=-2)
    topic = ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[partition])

    answer = ListOffsetsRequest(topics=[topic]).error_response(ErrorCode.INVALID_REQUEST, 5)

    assert answer == ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.ListOffsetsTopicResponse(
                name="t",
                partitions=[
                    ListOffsetsResponse.ListOffsetsPartitionResponse(
                        partition_index=2, error_code=42, timestamp=-1, offset=-1
                    )
                ],
            )
        ]
    )


def test_metadata_names_topics_and_nothing_when_all_were_asked_for() -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")])

    answer = request.error_response(ErrorCode.BROKER_NOT_AVAILABLE, 4)

    assert answer == MetadataResponse(
        topics=[MetadataResponse.MetadataResponseTopic(name="t", error_code=8)]
    )
    assert MetadataRequest(topics=None).error_response(ErrorCode.BROKER_NOT_AVAILABLE, 4) == (
        MetadataResponse()
    )


def test_offset_fetch_has_its_code_where_the_version_has_it() -> None:
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[6])
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g")
    request = OffsetFetchRequest(group_id="g", topics=[topic], groups=[group])

    answers = [request.error_response(ErrorCode.NOT_COORDINATOR, version) for version in (1, 2, 8)]

    assert answers == [
        OffsetFetchResponse(
            topics=[
                OffsetFetchResponse.OffsetFetchResponseTopic(
                    name="t",
                    partitions=[
                        OffsetFetchResponse.OffsetFetchResponsePartition(
                            partition_index=6, committed_offset=-1, error_code=16
                        )
                    ],
                )
            ]
        ),
        OffsetFetchResponse(error_code=16),
        OffsetFetchResponse(
            groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id="g", error_code=16)]
        ),
    ]


def test_find_coordinator_has_no_node_and_names_keys_in_batches() -> None:
    request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])

    single = request.error_response(ErrorCode.COORDINATOR_NOT_AVAILABLE, 3, "later")
    batch = request.error_response(ErrorCode.COORDINATOR_NOT_AVAILABLE, 4, "later")

    assert single == FindCoordinatorResponse(
        error_code=15, error_message="later", node_id=-1, port=-1
    )
    assert batch == FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=-1, port=-1, error_code=15, error_message="later"
            )
            for key in ("g", "h")
        ]
    )


def test_groups_given_as_plain_names_are_named_in_the_answer() -> None:
    answer = DescribeGroupsRequest(groups=["g"]).error_response(ErrorCode.NOT_COORDINATOR, 6, "no")

    assert answer == DescribeGroupsResponse(
        groups=[
            DescribeGroupsResponse.DescribedGroup(group_id="g", error_code=16, error_message="no")
        ]
    )


def test_create_topics_copies_the_name_only() -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=3, replication_factor=2)

    answer = CreateTopicsRequest(topics=[topic]).error_response(ErrorCode.NOT_CONTROLLER, 5)

    assert answer == CreateTopicsResponse(
        topics=[
            CreateTopicsResponse.CreatableTopicResult(name="t", error_code=41, error_message=None)
        ]
    )


def test_config_resources_are_named_by_type_and_name() -> None:
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="t")

    answer = DescribeConfigsRequest(resources=[resource]).error_response(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1
    )

    assert answer == DescribeConfigsResponse(
        results=[
            DescribeConfigsResponse.DescribeConfigsResult(
                error_code=31, error_message=None, resource_type=2, resource_name="t"
            )
        ]
    )


def test_a_topic_asked_for_by_id_alone_is_refused_with_an_empty_name() -> None:
    topic = MetadataRequest.MetadataRequestTopic(topic_id=TOPIC_ID, name=None)

    answer = MetadataRequest(topics=[topic]).error_response(ErrorCode.INVALID_REQUEST, 10)

    assert isinstance(answer, MetadataResponse)
    assert (answer.topics[0].name, answer.topics[0].topic_id) == ("", TOPIC_ID)
    assert encode(answer, 10)


def test_every_error_code_of_a_response_is_found_wherever_it_stands() -> None:
    result = CreateTopicsResponse.CreatableTopicResult
    response = CreateTopicsResponse(topics=[result(error_code=36), result(error_code=41)])

    assert list(error_codes(response)) == [36, 41]
    assert list(error_codes(HeartbeatResponse(error_code=16))) == [16]
    assert list(error_codes(CreateTopicsResponse())) == []
