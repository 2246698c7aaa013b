"""Batches of a running cluster as they stand in the log, fetched as a consumer of committed records
does (KIP-98), so that the answer names the aborted transactions too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import BatchHeader

_FETCH_WAIT_MS = 500
_READ_COMMITTED = 1
_FETCH_VERSIONS = (4, 12)  # with aborted transactions, and topics by name


@dataclass(frozen=True, slots=True)
class RawFetch:
    """Batches as bytes, and the aborted transactions (producer id, first offset) among them."""

    records: bytes
    aborted: tuple[tuple[int, int], ...]
    log_start_offset: int


def fetch_raw(
    client: Any, leader: int, partition: TopicPartition, offset: int, size_bytes: int
) -> RawFetch:
    """Fetch about so many bytes from an offset on, at least one batch; none where the log begins
    later. `client` is that of `admin_client`. Raises PipelineError.
    """
    from kafka.protocol.consumer import FetchRequest

    wanted = FetchRequest.FetchTopic.FetchPartition(
        partition=partition.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=size_bytes,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=_FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=size_bytes,
        isolation_level=_READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=partition.topic, partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_FETCH_VERSIONS[0],
        max_version=_FETCH_VERSIONS[1],
    )

    answer = client.send(request, leader).responses[0].partitions[0]
    if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return RawFetch(b"", (), _earliest(client, partition))
    if answer.error_code:
        raise PipelineError(
            f"{partition} cannot be read around offset {offset}: "
            f"{ErrorCode(answer.error_code).name}; run again"
        )
    aborted = answer.aborted_transactions or []
    return RawFetch(
        records=bytes(answer.records or b""),
        aborted=tuple((each.producer_id, each.first_offset) for each in aborted),
        log_start_offset=max(answer.log_start_offset or 0, 0),
    )


def leader_of(client: Any, partition: TopicPartition) -> int:
    """The broker that has the partition; raises PipelineError where there is none."""
    for topic in client.describe_topics([partition.topic]):
        for entry in topic["partitions"]:
            if entry["partition_index"] == partition.partition:
                return int(entry["leader_id"])
    raise PipelineError(f"{partition} has gone from the cluster while it was archived")


def whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of an answer, without the last where it is cut."""
    position = 0
    while position < len(data):
        try:
            header = read_any_header(data, position)
        except KafkaError:
            return  # the last one is cut
        end = position + header.size_bytes
        if end > len(data):
            return
        yield header, data[position:end]
        position = end


def _earliest(client: Any, partition: TopicPartition) -> int:
    from kafka import TopicPartition as ClientPartition
    from kafka.admin import OffsetSpec

    wanted = ClientPartition(*partition)
    found = client.list_partition_offsets({wanted: OffsetSpec.EARLIEST})
    return int(found[wanted].offset)
