"""RecordSender: writes records to the partitions of one topic, several batches at a time.

Law: each PartitionQueue keeps the order and number of its records, and with acks=all the producer
is idempotent, so that a batch sent twice is stored once. After trouble that passes, such as an
election or a broker that is away, batches are sent again for a while. Blocks only if a broker does
not read its requests; owned by one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kbroker.client.broker_link import BrokerLink, readable
from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.client.partition_queue import IN_FLIGHT_MAX, PartitionQueue, SentBatch
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import NO_LEADER, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.produce import ProduceRequest, ProduceResponse
from kbroker.record.bulk_records import build_from_bodies
from kbroker.record.compression import NONE
from kbroker.record.default_record import Headers
from kbroker.record.packed_batch import PackedBatch
from kbroker.record.record_batch import TRANSACTIONAL_BIT, BatchOptions

ALL, LEADER, NOBODY = -1, 1, 0  # who acknowledges

_BATCH_BYTES = 1_000_000  # below the default of max.message.bytes
_GATHERED_BYTES = 8_000_000
_WAITING_MAX = 4  # batches that are ready while others are in flight
_ACKS_MS = 20_000
_WITHOUT_KEY = "cannot accept message without key"  # Kafka's words
_PAUSE_S = 0.1
_LOOK_S = 1.0
_WRITTEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_UNSURE = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
_TOO_FEW_IN_SYNC = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
# The transaction has ended, or a partition has lost count of its records.
_LOST = (
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER,  # at which offsets is not known
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.UNKNOWN_PRODUCER_ID,
)


class RecordProducer(NamedTuple):
    """A producer's identity; `transactional_id` if it writes in transactions."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    transactional_id: str | None = None


class TransactionLostError(Exception):
    """A transaction that can no longer be committed: it took too long, another producer has its id,
    or a broker has lost its state.
    """

    def __init__(self, transactional_id: str, code: ErrorCode) -> None:
        super().__init__(f"the transaction of {transactional_id} is lost: {code.name}")
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Options of a RecordSender."""

    acks: int = ALL
    compression: int = NONE
    headers: Headers | None = ()  # of every record; None: each body ends with its own
    # For a partition that takes no records; a person waits, not a service.
    patience_s: float = 30.0
    producer: RecordProducer | None = None  # None: one without transactions
    # gets (partition, records, offset of the first, -1 if not known) of each batch when its answer
    # comes, which may be after that of batches written later
    on_written: Callable[[int, int, int], None] = lambda _partition, _records, _offset: None


class RecordSender:
    """Writes records: `put` them, `pump` what may be sent, `take` answers from links."""

    def __init__(
        self,
        cluster: ClusterLinks,
        topic: TopicView,
        options: SendOptions,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises ClientError if the cluster gives no producer id, OSError if none answers."""
        self.acknowledged = 0  # records
        self.batches = 0  # that were filled so far
        self.refusal: str | None = None  # the first one
        self.batch_bytes = _BATCH_BYTES  # the most that a batch has, before compression
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._now_s = now_s
        self._queues: dict[int, PartitionQueue] = {}
        self._links: dict[int, BrokerLink] = {}  # by partition: where its batches in flight are
        self._resume_s = 0.0
        self._is_stale = False  # leaders must be looked up again
        self._reason = "no answer in time"  # of the last trouble
        self._trouble: Trouble | None = Trouble.NO_ANSWER
        self._producer = options.producer or RecordProducer()
        if options.acks == ALL and options.producer is None:
            self._producer = self._new_producer()

    @property
    def has_room(self) -> bool:
        """Whether few enough batches are waiting."""
        return sum(queue.waiting for queue in self._queues.values()) < _WAITING_MAX

    @property
    def is_gathering(self) -> bool:
        """Whether records wait for others to fill a batch with."""
        return any(queue.is_gathering for queue in self._queues.values())

    @property
    def is_full(self) -> bool:
        """Whether records gathered for many partitions take much memory."""
        return sum(queue.gathered_bytes for queue in self._queues.values()) > _GATHERED_BYTES

    @property
    def is_idle(self) -> bool:
        return all(queue.is_idle for queue in self._queues.values())

    @property
    def uncertain(self) -> int:
        """How many records may or may not be written."""
        return sum(queue.uncertain for queue in self._queues.values())

    @property
    def wait_s(self) -> float | None:
        """How long there is nothing to do unless answers come; None: for ever."""
        if any(queue.waiting for queue in self._queues.values()):
            return _PAUSE_S
        return None if self.is_idle else _LOOK_S

    def put(
        self, partition: int, bodies: Sequence[bytes], timestamp_ms: int, times: Sequence[int] = ()
    ) -> None:
        """Add records; full batches then wait to be sent. `times` (Unix ms): those of the records,
        unless all get the time at which their batch is made.
        """
        queue = self._queue(partition)
        queue.gather(bodies, times)
        self.batches += queue.cut_full(self.batch_bytes, timestamp_ms, self._give_up_s())

    def put_packed(self, partition: int, packed: PackedBatch, timestamp_ms: int) -> None:
        """Add a batch that is sent as it is, after the records before."""
        queue = self._queue(partition)
        self.batches += 1 + queue.cut(self.batch_bytes, timestamp_ms, self._give_up_s())
        queue.add(packed, self._give_up_s())

    def complete(self, timestamp_ms: int) -> None:
        """Make the batches that are not full ready to be sent too."""
        for queue in self._queues.values():
            self.batches += queue.cut(self.batch_bytes, timestamp_ms, self._give_up_s())

    def pump(self) -> None:
        """Send all that may be sent now. ClientError if a partition takes nothing for too long."""
        now_s = self._now_s()
        for queue in self._queues.values():
            give_up_s = queue.give_up_s
            if give_up_s is not None and give_up_s < now_s:
                raise ClientError(self._reason, trouble=self._trouble)
        if now_s < self._resume_s:
            return
        try:
            if self._is_stale:
                self._topic = self._cluster.topic(self._topic.name)
                self._is_stale = False
            for partition, queue in self._queues.items():
                while not self._is_stale and self._send_next(partition, queue):
                    pass
        except OSError as error:
            self._pause(str(error), Trouble.ADVERTISED_ADDRESS)

    def take(self, link: BrokerLink) -> None:
        """Take an answer that has come. Raises TransactionLostError."""
        try:
            batch, answer = link.take()
        except OSError as error:
            self._lose(link, str(error))
            return
        self._settle(batch, answer.responses[0].partition_responses[0])

    def send_until(
        self, is_done: Callable[[], bool], after_turn: Callable[[], None] = lambda: None
    ) -> None:
        """Send and take answers until `is_done`. Raises what `pump` and `take` raise."""
        while True:
            ready = readable(self._cluster.busy(), 0 if is_done() else self.wait_s)
            for link in ready:
                self.take(link)
            self.pump()
            after_turn()
            if is_done() and not ready:
                return

    def _queue(self, partition: int) -> PartitionQueue:
        queue = self._queues.get(partition)
        if queue is None:
            has_sequences = self._options.acks == ALL
            queue = PartitionQueue(partition, has_sequences=has_sequences)
            self._queues[partition] = queue
        return queue

    def _give_up_s(self) -> float:
        return self._now_s() + self._options.patience_s

    def _new_producer(self) -> RecordProducer:
        give_up_s = self._give_up_s()
        while True:
            answer = self._cluster.ask_any(InitProducerIdRequest(transactional_id=None))
            code = ErrorCode(answer.error_code)
            if code == ErrorCode.NONE:
                return RecordProducer(answer.producer_id, answer.producer_epoch)
            if not code.retriable or self._now_s() > give_up_s:
                raise ClientError(f"the cluster gives no producer id: {code.name}")
            time.sleep(_PAUSE_S)

    def _send_next(self, partition: int, queue: PartitionQueue) -> bool:
        """Send the next batch of a partition, if it may be sent; return whether it was."""
        if not queue.waiting:
            return False
        leader = self._topic.leaders.get(partition, NO_LEADER)
        if leader == NO_LEADER:
            name, code = self._topic.name, self._topic.code
            if code:
                self._pause(f"{name}: {code.name}")
            else:
                self._pause(f"{name}-{partition} has no leader", Trouble.NO_LEADER)
            return False
        link = self._cluster.link(leader)
        is_elsewhere = queue.has_in_flight and self._links[partition] is not link
        if is_elsewhere or len(link.in_flight) >= IN_FLIGHT_MAX:
            return False
        batch = queue.next_batch()
        if batch is None:
            return False
        self._links[partition] = link
        is_answered = self._options.acks != NOBODY
        try:
            link.send(self._request(batch), batch, is_answered=is_answered)
        except KafkaError as error:
            raise ClientError(str(error)) from error
        except OSError as error:
            if not is_answered:
                queue.fail(batch)
            self._lose(link, str(error))
            return False
        if not is_answered:
            self._accept(queue, batch, -1)
        return True

    def _request(self, batch: SentBatch) -> ProduceRequest:
        producer_id, producer_epoch, transactional_id = self._producer
        options = BatchOptions(
            flags=0 if transactional_id is None else TRANSACTIONAL_BIT,
            compression=self._options.compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=NO_SEQUENCE if batch.sequence is None else batch.sequence,
        )
        headers = self._options.headers
        records = (
            build_from_bodies(batch.bodies, headers, batch.timestamps, options)
            if batch.packed is None
            else batch.packed.for_producer(options)
        )
        data = ProduceRequest.PartitionProduceData(
            index=batch.partition, records=memoryview(records)
        )
        topic = ProduceRequest.TopicProduceData(name=self._topic.name, partition_data=[data])
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=self._options.acks,
            timeout_ms=_ACKS_MS,
            topic_data=[topic],
        )

    def _settle(self, batch: SentBatch, answer: ProduceResponse.PartitionProduceResponse) -> None:
        queue = self._queues[batch.partition]
        code = ErrorCode(answer.error_code)
        is_disordered = code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        transactional_id = self._producer.transactional_id
        if is_disordered and queue.fails_by_another(batch):
            queue.fail(batch, may_be_written=False)
        elif transactional_id is not None and code in _LOST:
            raise TransactionLostError(transactional_id, code)
        elif code in _WRITTEN:
            self._accept(queue, batch, answer.base_offset)
        elif code.retriable:
            queue.fail(batch, may_be_written=code in _UNSURE)
            self._pause(*_describe_lack(code))
        elif code in _TOO_LARGE and batch.count > 1:
            batch.unpack()
            # Later batches should fit too.
            half_bytes = max(sum(map(len, batch.bodies)) // 2, 1)
            self.batch_bytes = min(self.batch_bytes, half_bytes)
            queue.halve(batch)
        else:
            queue.refuse(batch)
            self._reason, self._trouble = _refusal(code, answer), None
            self.refusal = self.refusal or self._reason

    def _accept(self, queue: PartitionQueue, batch: SentBatch, base_offset: int) -> None:
        queue.accept(batch, self._give_up_s())
        self.acknowledged += batch.count
        self._options.on_written(batch.partition, batch.count, base_offset)

    def _lose(self, link: BrokerLink, reason: str) -> None:
        for asked in link.in_flight:
            self._queues[asked.context.partition].fail(asked.context)
        self._cluster.lose(link)
        self._pause(reason, Trouble.NO_ANSWER)

    def _pause(self, reason: str, trouble: Trouble | None = None) -> None:
        self._reason, self._trouble = reason, trouble
        self._is_stale = True
        self._resume_s = self._now_s() + _PAUSE_S


def _describe_lack(code: ErrorCode) -> tuple[str, Trouble | None]:
    """Return the sentence about a lack that may pass, and the topic that says more."""
    if code in _TOO_FEW_IN_SYNC:
        sentence = f"fewer replicas are in sync than min.insync.replicas asks for ({code.name})"
        return sentence, Trouble.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return f"a disk of its broker is full, or has failed, as its log says ({code.name})", None
    return code.name, None


def _refusal(code: ErrorCode, answer: ProduceResponse.PartitionProduceResponse) -> str:
    if code in _TOO_LARGE:
        setting = (
            "segment.bytes" if code is ErrorCode.RECORD_LIST_TOO_LARGE else "max.message.bytes"
        )
        return f"a record is larger than {setting} of the topic allows ({code.name})"
    message = answer.error_message
    if answer.record_errors:  # the message lists them in Java's words
        message = answer.record_errors[0].batch_index_error_message or message
    if code is ErrorCode.INVALID_RECORD and message and _WITHOUT_KEY in message:
        message = "the topic is compacted, so each record needs a key"
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:  # but leaders were found for the name
        message = message or "only the brokers write to this topic"
    return f"{message} ({code.name})" if message else code.name
