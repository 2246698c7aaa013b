"""One Produce request on its way: what is to be appended, and the response as it fills.

Law: each topic and each partition has one entry in the answer, and a topic without partitions has
none. A partition that is named twice keeps the records named last. Both are as in Kafka, so that
every client can match answers to what it sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from kbroker.apis.produce_validation import refusal, transactional_batch
from kbroker.errors import NO_ERROR, ErrorCode
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.model import TopicPartition, new_tuple
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.protocol.schema import maker
from kbroker.replication.partitions.produce_result import PartitionProduceResult

TopicProduceData = ProduceRequest.TopicProduceData
TopicProduceResponse = ProduceResponse.TopicProduceResponse
PartitionProduceResponse = ProduceResponse.PartitionProduceResponse

FIRST_VERSION_THAT_KNOWS_CONCURRENT = 12
FIRST_VERSION_WITH_TOPIC_IDS = 13

# Of a coordinator that cannot be asked about a transaction now.
_PASSING = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
_response = maker(ProduceResponse, "responses")
_topic_response = maker(TopicProduceResponse, "name", "topic_id", "partition_responses")
_appended = maker(
    PartitionProduceResponse,
    "index",
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
    "record_errors",
)


def transactional_batches(
    entries: Iterable[tuple[TopicPartition, memoryview]],
) -> dict[TopicPartition, TransactionalBatch]:
    """The batches to append that belong to a transaction."""
    found = ((name, transactional_batch(records)) for name, records in entries)
    return {name: batch for name, batch in found if batch is not None}


class ProduceWork:
    """Sorts the partitions of a request into those to append and those refused at once."""

    __slots__ = (
        "_answers",
        "_entries",
        "_refused",
        "_topic_name",
        "_topics",
        "_transactional_id",
        "_version",
        "has_error",
        "not_led_here",
        "response",
    )

    def __init__(
        self, request: ProduceRequest, version: int, topic_name: Callable[[UUID], str | None]
    ) -> None:
        self.response = _response([])
        self.has_error = False
        self.not_led_here: list[tuple[TopicPartition, PartitionProduceResponse]] = []
        self._version = version
        self._transactional_id = request.transactional_id
        self._topic_name = topic_name
        self._topics: dict[UUID | str, TopicProduceResponse] = {}
        self._entries: dict[TopicPartition, memoryview] = {}
        # Where the answer of each entry belongs, in their order.
        self._answers: list[list[PartitionProduceResponse]] = []
        self._refused: dict[TopicPartition, PartitionProduceResponse] = {}

    def sort(self, topics: Iterable[TopicProduceData]) -> bool:
        """Take on some topics of the request; False, and it takes no more, if nobody may write
        what one of them has: then see `refuse_all`.
        """
        entries = self._entries
        version, transactional_id = self._version, self._transactional_id
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        for topic in topics:
            if not topic.partition_data:
                continue
            name = self._topic_name(topic.topic_id) if by_id else topic.name
            answers = self._answers_of(topic)
            for data in topic.partition_data:
                if name is None:
                    answers.append(self._refusal(data.index, ErrorCode.UNKNOWN_TOPIC_ID))
                    continue
                records = data.records
                topic_partition = new_tuple(TopicPartition, (name, data.index))
                why = refusal(records, version, transactional_id)
                if why is None:
                    assert records is not None, "null records are refused"
                    known = len(entries)
                    entries[topic_partition] = records
                    if len(entries) > known:
                        self._answers.append(answers)
                elif why is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                    self._entries.clear()
                    self._answers.clear()
                    self._topics.clear()
                    self.response.responses.clear()
                    return False
                else:
                    self._refuse(topic_partition, why, records, answers)
        return True

    def place(self, topics: Iterable[TopicProduceData]) -> None:
        """Take on the topics of a request whose records went to the log already, each partition
        once.
        """
        for topic in topics:
            if topic.partition_data:
                self._answers += [self._answers_of(topic)] * len(topic.partition_data)

    @property
    def entries(self) -> Collection[tuple[TopicPartition, memoryview]]:
        """Partitions with the records to append, each once."""
        return self._entries.items()

    def refuse_entries(self, refused: Mapping[TopicPartition, ErrorCode], version: int) -> None:
        """Do not append these transactional records (KIP-890).

        What passes becomes NOT_ENOUGH_REPLICAS, as in Kafka: every producer sends the batch again
        then, and looks nothing up. Those who know CONCURRENT_TRANSACTIONS send it again sooner.
        """
        knows_concurrent = version >= FIRST_VERSION_THAT_KNOWS_CONCURRENT
        answers_of = dict(zip(self._entries, self._answers, strict=True))
        for topic_partition, code in refused.items():
            answers = answers_of.pop(topic_partition)
            del self._entries[topic_partition]
            if topic_partition in self._refused:
                continue
            result = PartitionProduceResult(topic_partition, code)
            is_known = knows_concurrent and code is ErrorCode.CONCURRENT_TRANSACTIONS
            if code in _PASSING and not is_known:
                result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS
                result.error_message = (
                    "Unable to verify the partition has been added to the transaction. "
                    f"Underlying error: {code.name}"
                )
            elif code is ErrorCode.INVALID_TXN_STATE:
                result.error_message = "Partition was not added to the transaction"
            answers.append(self._refusal(topic_partition.partition, code))
            self._fill_error(answers[-1], result)
        self._answers = list(answers_of.values())

    def let_go_of(self, request: ProduceRequest) -> None:
        """Everything is appended: an answer that waits must not keep the records received."""
        self._entries.clear()
        for topic in request.topic_data:
            for data in topic.partition_data:
                data.records = None

    def fill(self, results: list[PartitionProduceResult], first: int = 0) -> ProduceResponse:
        """Enter what the appends came to: one result per entry, in their order, from the entry
        with the number `first` on.
        """
        answers_of = self._answers[first : first + len(results)]
        for result, answers in zip(results, answers_of, strict=True):
            topic_partition = result.topic_partition
            if self._refused and topic_partition in self._refused:
                continue
            answer = _appended(
                topic_partition[1],
                result.base_offset,
                result.log_append_time_ms,
                result.log_start_offset,
                [],
            )
            answers.append(answer)
            if result.error_code is not NO_ERROR:
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

    def _refuse(
        self,
        topic_partition: TopicPartition,
        why: ErrorCode,
        records: memoryview | None,
        answers: list[PartitionProduceResponse],
    ) -> None:
        """The answer of a partition that is named twice is its refusal, as in Kafka."""
        answer = self._refused.get(topic_partition)
        if answer is None:
            answer = self._refused[topic_partition] = self._refusal(topic_partition.partition, why)
            answers.append(answer)
        answer.error_code = why
        if records is None:
            answer.error_message = "The partition has no records"

    def _refusal(self, index: int, code: ErrorCode) -> PartitionProduceResponse:
        self.has_error = True
        return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)

    def refuse_all(self, topics: Iterable[TopicProduceData]) -> None:
        """Answer topics of a request that nobody may write, as its transaction is refused whole."""
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        for topic in topics:
            if topic.partition_data:
                self._answers_of(topic).extend(
                    self._refusal(data.index, code) for data in topic.partition_data
                )

    def _answers_of(self, topic: TopicProduceData) -> list[PartitionProduceResponse]:
        key = topic.topic_id if self._version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
        answer = self._topics.get(key)
        if answer is None:
            answer = self._topics[key] = _topic_response(topic.name, topic.topic_id, [])
            self.response.responses.append(answer)
        return answer.partition_responses
