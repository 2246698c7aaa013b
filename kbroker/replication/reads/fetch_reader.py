"""Reads several partitions for one fetch: shares out the bytes, turns each refusal into that
partition's error code.

Law: owned by the event loop; no record is copied, an answer holds slices of segment files. Every
partition asked for has one entry in the outcome, in the same order. The first batch found is
returned whole whatever the limits, so that a consumer always makes progress (KIP-74); a later
partition returns nothing if not even one batch fits. Fetchers of older versions are held to their
limit, and get part of a batch. Conversion is in `down_conversion`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.clock import Clock
from kbroker.config.topic_config import TopicConfig
from kbroker.errors import ErrorCode, KafkaError
from kbroker.log.segments.fetch_data_info import FetchIsolation
from kbroker.log.segments.transaction_index import AbortedTxn
from kbroker.model import ZERO_UUID
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.schema import maker
from kbroker.replication.partitions.hosted_partitions import HostedPartitions
from kbroker.replication.partitions.partition import Partition
from kbroker.replication.reads.fetch_params import NO_EPOCH, FetchParams, FetchPartition
from kbroker.replication.replication_quota import ReplicationQuotas

PartitionData = FetchResponse.PartitionData
_read = maker(
    PartitionData,
    "partition_index",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
    "aborted_transactions",
    "records",
)
_TXN_COMMITTED = FetchIsolation.TXN_COMMITTED  # a look into the class costs 70 ns


# An unknown partition is answered with the others and does not keep them from waiting: the client
# would ask again at once, for as long as the partition is missing.
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

# Ordinary fetchers get these and go on; Kafka counts no failed request.
_NO_FAILURES = frozenset(
    {
        *UNKNOWN,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


class FetchOutcome:
    """The outcome of one read. `available` has the bytes that each partition holds for this fetch,
    though the limit of the answer may have left some out. A partition counts as all that is wanted
    if it diverged, is better read elsewhere, or goes on in a later segment.
    """

    __slots__ = (
        "available",
        "available_bytes",
        "must_answer",
        "partitions",
        "size_bytes",
        "unknown",
    )

    def __init__(self) -> None:
        self.partitions: list[PartitionData] = []
        self.available: list[int] = []
        self.available_bytes = 0  # their sum
        self.size_bytes = 0  # of the records
        self.unknown = 0  # partitions that do not exist
        self.must_answer = False  # an error does not wait


class FetchReader:
    """Reads from the partitions of a broker."""

    def __init__(self, hosted: HostedPartitions, clock: Clock, quotas: ReplicationQuotas) -> None:
        self._hosted = hosted
        self._clock = clock
        self._quotas = quotas

    def read(
        self,
        params: FetchParams,
        asked_for: Sequence[FetchPartition],
        others: int = 0,
        before: FetchOutcome | None = None,
    ) -> FetchOutcome:
        """Read what is there now. The fetcher waits for `others` more partitions; the outcome is
        added to `before`, that of this fetch so far.
        """
        outcome = FetchOutcome() if before is None else before
        remaining_bytes = params.max_bytes - outcome.size_bytes
        min_one_message = not (params.is_hard_limit or outcome.size_bytes)
        for asked in asked_for:
            limit = asked.max_bytes if asked.max_bytes < remaining_bytes else remaining_bytes
            limit = limit if limit > 0 else 0
            try:
                data, available = self._read_partition(params, asked, limit, min_one_message)
            except KafkaError as error:
                data = refusal_entry(asked, error.code)
                available = 0
                self._count_refused(asked, error.code)
                if error.code in UNKNOWN:
                    outcome.unknown += 1
                else:
                    outcome.must_answer = True
            size = asked.found_bytes = len(data.records)  # type: ignore[arg-type]
            if size:
                min_one_message = False
                outcome.size_bytes += size
                remaining_bytes = remaining_bytes - size if size < remaining_bytes else 0
            counted = available if available > size else size
            outcome.available.append(counted)
            outcome.available_bytes += counted
            outcome.partitions.append(data)
        if outcome.unknown and outcome.unknown == len(outcome.partitions) + others:
            outcome.must_answer = True
        return outcome

    def _read_partition(
        self, params: FetchParams, asked: FetchPartition, limit_bytes: int, min_one_message: bool
    ) -> tuple[PartitionData, int]:
        """Return an entry and its bytes: all that are wanted if it does not wait. KafkaError."""
        partition = self._partition_for(params, asked)
        counters = asked.counters = partition.counters
        counters.fetch_requests += 1
        if params.preferred_replica is not None:
            preferred = params.preferred_replica(partition, asked.fetch_offset)
            if preferred >= 0:  # the consumer reads from the replica nearest to it (KIP-392)
                data = _without_records(partition, asked)
                data.preferred_read_replica = preferred
                return data, params.min_bytes
        if asked.last_fetched_epoch != NO_EPOCH:
            diverged = partition.diverging_epoch(
                asked.last_fetched_epoch, asked.fetch_offset, params.replica_id
            )
            if diverged is not None:
                data = _without_records(partition, asked)
                data.diverging_epoch = FetchResponse.EpochEndOffset(
                    epoch=diverged.epoch, end_offset=diverged.end_offset
                )
                return data, params.min_bytes
        log = partition.log
        if not params.knows_zstd:
            _check_can_read(params, log.config)
        isolation = params.isolation
        offsets = log.offsets
        high_watermark = offsets.high_watermark  # before the read: never more than was readable
        found = log.read(asked.fetch_offset, limit_bytes, isolation, min_one_message)
        aborted = None
        if isolation is _TXN_COMMITTED:
            aborted = _aborted(found.aborted_transactions) if found.aborted_transactions else []
        cut = found.is_first_incomplete  # old fetchers take it for "too large", new ones for damage
        data = _read(
            asked.topic_partition.partition,
            high_watermark,
            log.last_stable_offset,
            offsets.log_start_offset,
            aborted,
            b"" if cut and not params.is_hard_limit else found.records,
        )
        if self._quotas.leader.limit is not None and self._holds_back(params, partition):
            data.records = b""
            return data, 0  # nor does it wait for these
        if found.on_older_segment:
            return data, params.min_bytes
        available = found.available_bytes
        return data, available if available < asked.max_bytes else asked.max_bytes

    def _count_refused(self, asked: FetchPartition, code: ErrorCode) -> None:
        if code in _NO_FAILURES:
            return
        partition = self._hosted.find(asked.topic_partition)
        if partition is not None:
            partition.counters.failed_fetch_requests += 1

    def _holds_back(self, params: FetchParams, partition: Partition) -> bool:
        """Whether a throttled follower has to wait (KIP-73): never one in sync."""
        quotas, follower = self._quotas, params.replica_id
        return (
            follower >= 0
            and follower not in partition.state.isr
            and quotas.throttles_leader(*partition.topic_partition, partition.log.config)
            and quotas.leader.is_exceeded(self._clock.monotonic_ms())
        )

    def _partition_for(self, params: FetchParams, asked: FetchPartition) -> Partition:
        """The partition. Raises a KafkaError that says why this fetcher may not read it."""
        partition = self._hosted.find(asked.topic_partition) or self._absent(asked)
        state = partition.state
        if state.leader != state.local_id or asked.current_leader_epoch not in (
            NO_EPOCH,
            state.leader_epoch,
        ):
            partition.check_access(asked.current_leader_epoch, leader_only=params.leader_only)
        topic_id = asked.topic_id
        if topic_id is not ZERO_UUID and topic_id is not partition.log.topic_id:
            _check_topic_id(partition, asked)
        if params.replica_id >= 0 and not partition.has_replica(params.replica_id):
            # A follower that knows the epoch may have heard something that is still to come here.
            is_old = asked.current_leader_epoch == NO_EPOCH
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"Broker {params.replica_id} is not a replica of {asked.topic_partition}",
            )
        return partition

    def _absent(self, asked: FetchPartition) -> Partition:
        if asked.topic_id is not ZERO_UUID and not asked.topic_partition.topic:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"No topic has id {asked.topic_id}")
        return self._hosted.get(asked.topic_partition)


def refusal_entry(asked: FetchPartition, code: ErrorCode) -> PartitionData:
    """The entry of a partition that cannot be read: no offsets, no records."""
    asked.found_bytes = 0
    return PartitionData(
        partition_index=asked.topic_partition.partition,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=[] if code in UNKNOWN else None,
        records=b"",
    )


def _check_can_read(params: FetchParams, config: TopicConfig) -> None:
    """Raise KafkaError if a topic is not for such an old fetcher (KIP-110, KIP-283)."""
    if config.compression_type == "zstd":
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "Records of this topic are compressed with zstd"
        )
    is_consumer = params.replica_id < 0
    if (
        params.max_magic < config.message_format
        and is_consumer
        and not config.message_downconversion_enable
    ):
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"message.downconversion.enable=false, and the fetcher knows formats up to "
            f"{params.max_magic}",
        )


def _aborted(transactions: Sequence[AbortedTxn]) -> list[FetchResponse.AbortedTransaction]:
    return [
        FetchResponse.AbortedTransaction(
            producer_id=transaction.producer_id, first_offset=transaction.first_offset
        )
        for transaction in transactions
    ]


def _without_records(partition: Partition, asked: FetchPartition) -> PartitionData:
    return _read(
        asked.topic_partition.partition,
        partition.high_watermark,
        partition.log.last_stable_offset,
        partition.log_start_offset,
        None,
        b"",
    )


def _check_topic_id(partition: Partition, asked: FetchPartition) -> None:
    known = partition.log.topic_id or ZERO_UUID
    if known not in (asked.topic_id, ZERO_UUID):
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"{asked.topic_partition} has topic id {known}, not {asked.topic_id}",
        )
    if known is not ZERO_UUID:
        asked.topic_id = known  # the same object, so that a session need not compare again
