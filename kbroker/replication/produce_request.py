"""One Produce request on its way: what is to be appended, and the response as it fills.

Law: each topic and each partition has one entry in the answer, a topic without partitions none. A
partition that is named twice keeps the records named last, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from uuid import UUID

from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.replication.produce_result import PartitionProduceResult
from kbroker.replication.produce_validation import refusal

PartitionProduceResponse = ProduceResponse.PartitionProduceResponse

FIRST_VERSION_WITH_TOPIC_IDS = 13

_new_tuple = tuple.__new__


class ProduceWork:
    """Sorts the partitions of a request into those to append and those refused at once."""

    __slots__ = ("_answers", "_entries", "has_error", "not_led_here", "response")

    def __init__(
        self, request: ProduceRequest, version: int, topic_name: Callable[[UUID], str | None]
    ) -> None:
        self.response = ProduceResponse()
        self.has_error = False
        self.not_led_here: list[tuple[TopicPartition, PartitionProduceResponse]] = []
        self._entries: dict[TopicPartition, memoryview] = {}
        self._answers: dict[TopicPartition, PartitionProduceResponse] = {}
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        topics: dict[UUID | str, ProduceResponse.TopicProduceResponse] = {}
        for topic in request.topic_data:
            if not topic.partition_data:
                continue
            key = topic.topic_id if by_id else topic.name
            name = topic_name(topic.topic_id) if by_id else topic.name
            answer = topics.get(key)
            if answer is None:
                # The list is its default too, but made later it costs more.
                answer = ProduceResponse.TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=[]
                )
                topics[key] = answer
                self.response.responses.append(answer)
            for data in topic.partition_data:
                if name is None:
                    answer.partition_responses.append(
                        self._refused(data.index, ErrorCode.UNKNOWN_TOPIC_ID)
                    )
                    continue
                why = refusal(data.records, version, request.transactional_id)
                if why is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    self._refuse_all(request, why)
                    return
                self._take(
                    answer, _new_tuple(TopicPartition, (name, data.index)), data.records, why
                )

    @property
    def entries(self) -> Collection[tuple[TopicPartition, memoryview]]:
        """Partitions with the records to append, each once."""
        return self._entries.items()

    def fill(self, results: list[PartitionProduceResult]) -> ProduceResponse:
        """Enter what the appends came to."""
        for result in results:
            answer = self._answers[result.topic_partition]
            answer.base_offset = result.base_offset
            answer.log_append_time_ms = result.log_append_time_ms
            answer.log_start_offset = result.log_start_offset
            if result.error_code is not ErrorCode.NONE:
                self._fill_error(answer, result)
        return self.response

    def _fill_error(self, answer: PartitionProduceResponse, result: PartitionProduceResult) -> None:
        self.has_error = True
        answer.error_code = result.error_code
        answer.error_message = result.error_message
        answer.record_errors = [
            ProduceResponse.BatchIndexAndErrorMessage(
                batch_index=error.batch_index, batch_index_error_message=error.message
            )
            for error in result.record_errors
        ]
        if result.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.not_led_here.append((result.topic_partition, answer))

    def _take(
        self,
        topic_answer: ProduceResponse.TopicProduceResponse,
        topic_partition: TopicPartition,
        records: memoryview | None,
        why: ErrorCode | None,
    ) -> None:
        new = PartitionProduceResponse(
            index=topic_partition.partition, base_offset=-1, record_errors=[]
        )
        answer = self._answers.setdefault(topic_partition, new)
        if answer is new:
            topic_answer.partition_responses.append(answer)
        if why is None:
            assert records is not None, "null records are refused"
            self._entries[topic_partition] = records
            return
        self.has_error = True
        answer.error_code = why
        if records is None:
            answer.error_message = "The partition has no records"

    def _refused(self, index: int, code: ErrorCode) -> PartitionProduceResponse:
        self.has_error = True
        return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)

    def _refuse_all(self, request: ProduceRequest, code: ErrorCode) -> None:
        """Nobody may write this transaction, and the request is the transaction's as a whole."""
        self._entries.clear()
        self.response.responses = [
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    self._refused(data.index, code) for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
