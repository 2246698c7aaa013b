"""DescribeProducers (61): the producers that a partition remembers (KIP-664).

v0: any replica answers, so that replicas can be compared; clients ask the leader. Kafka answers a
partition as often as it is named, and here all but the first get INVALID_REQUEST: a few bytes that
ask for thousands of producers would be answered with gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.admin.topic_validation import validate_topic_name
from kbroker.apis.authorization import ForEach, in_words
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large
from kbroker.apis.registry import api
from kbroker.apis.request_parts import Parts
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.producers.producer_state import ProducerStateEntry
from kbroker.model import TopicPartition
from kbroker.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kbroker.topic_name import is_valid_topic_name
from kbroker.turns import in_turns

_NO_TRANSACTION = -1
_BYTES_OF_PRODUCER = 512  # in an answer
_UNKNOWN_TOPIC = "This server does not host this topic-partition."

Partition = DescribeProducersResponse.PartitionResponse
State = DescribeProducersResponse.ProducerState


def _topic(_ctx: RequestContext, _request: Any, entry: Any) -> AclResource | None:
    """The topic that an entry names; Kafka says of a name that it is invalid to whoever asks."""
    is_valid = is_valid_topic_name(entry.name)
    return AclResource(AclResourceType.TOPIC, entry.name) if is_valid else None


@api(
    DescribeProducersRequest,
    ForEach(
        operation=AclOperation.READ,
        resource=_topic,
        asked="topics",
        answered="topics",
        text=in_words,
    ),
    parts=Parts("topics.partition_indexes", "topics.partitions", key="name."),
)
async def handle(
    ctx: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Answer each partition; others are answered in between, as a partition may remember many
    producers, and a request name many partitions.
    """
    response = DescribeProducersResponse()
    size_bytes = _BYTES_OF_PRODUCER * _count(ctx, request)
    if is_large(size_bytes):
        response.is_large, response.memory = True, await ctx.take(size_bytes)
    await in_turns(_fill(ctx, request, response.topics))
    return response


def _count(ctx: RequestContext, request: DescribeProducersRequest) -> int:
    """Return how many producers the answer has at most."""
    find = ctx.services.replicas.hosted.find
    places = {
        TopicPartition(topic.name, index)
        for topic in request.topics
        for index in topic.partition_indexes
    }
    hosted = filter(None, map(find, places))
    return sum(len(partition.log.producer_state.producers) for partition in hosted)


def _fill(
    ctx: RequestContext,
    request: DescribeProducersRequest,
    answers: list[DescribeProducersResponse.TopicResponse],
) -> Iterator[None]:
    answered: set[TopicPartition] = set()
    for topic in request.topics:
        yield
        refusal = _topic_refusal(ctx, topic.name)
        answer = DescribeProducersResponse.TopicResponse(name=topic.name)
        answers.append(answer)
        for index in topic.partition_indexes:
            yield
            partition = Partition(partition_index=index)
            answer.partitions.append(partition)
            place = TopicPartition(topic.name, index)
            if refusal is not None:
                partition.error_code, partition.error_message = refusal.code, refusal.message
            elif place in answered or ctx.twice.was_told(place):
                partition.error_code = ErrorCode.INVALID_REQUEST
            else:
                answered.add(place)
                for entry in _producers(ctx, place, partition):
                    partition.active_producers.append(_state(entry))
                    yield


def _topic_refusal(ctx: RequestContext, topic: str) -> KafkaError | None:
    try:
        validate_topic_name(topic)
    except KafkaError as error:
        return error
    if not ctx.services.metadata.contains_topic(topic):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC)
    return None


def _producers(
    ctx: RequestContext, place: TopicPartition, answer: Partition
) -> list[ProducerStateEntry]:
    """Return the producers that a replica remembers; if there is no replica, `answer` says why."""
    try:
        log = ctx.services.replicas.hosted.get(place).log
    except KafkaError as error:
        answer.error_code = error.code
        return []
    return list(log.producer_state.producers.values())


def _state(entry: ProducerStateEntry) -> State:
    first_offset = entry.current_txn_first_offset
    return State(
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=_NO_TRANSACTION if first_offset is None else first_offset,
    )
