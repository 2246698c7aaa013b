"""Fetches batches of a running cluster as they stand in the log, a few here and there.

Law: one request for all partitions of a leader. The first partition that has a batch gives it
whole, however large it is; the others give none that is larger than what was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kbroker.client.cluster_links import EARLIEST, ClusterLinks
from kbroker.client.topic_figures import offsets_at
from kbroker.client.topic_rows import by_topic
from kbroker.errors import ErrorCode, KafkaError
from kbroker.model import TopicPartition
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import BatchHeader

_WAIT_MS = 500


@dataclass(frozen=True, slots=True)
class RawFetch:
    """Batches as bytes, and the aborted transactions (producer id, first offset) among them;
    neither if `code` is an error, or if the log begins later.
    """

    records: bytes
    aborted: tuple[tuple[int, int], ...]
    log_start_offset: int
    code: ErrorCode = ErrorCode.NONE


def fetch_raw(
    links: ClusterLinks,
    leader: int,
    offsets: Mapping[TopicPartition, int],
    size_bytes: int,
    *,
    only_committed: bool,
) -> dict[TopicPartition, RawFetch]:
    """Fetch about `size_bytes` of each partition, from its offset on. `only_committed`: up to the
    first open transaction, and the answer names the aborted ones (KIP-98).

    Raises OSError, ClientError and KafkaError.
    """
    rows = {
        place: FetchRequest.FetchPartition(
            partition=place.partition, fetch_offset=offset, partition_max_bytes=size_bytes
        )
        for place, offset in offsets.items()
    }
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=size_bytes * len(offsets),
        isolation_level=int(only_committed),
        topics=[
            FetchRequest.FetchTopic(topic=name, partitions=entries)
            for name, entries in by_topic(rows).items()
        ],
    )
    answer: FetchResponse = links.ask(leader, request)
    found = {
        TopicPartition(topic.topic, entry.partition_index): _fetched(entry)
        for topic in answer.responses
        for entry in topic.partitions
    }
    gone = {
        place: leader for place, each in found.items() if each.code == ErrorCode.OFFSET_OUT_OF_RANGE
    }
    starts = offsets_at(links, gone, EARLIEST)
    return found | {place: RawFetch(b"", (), start) for place, start in starts.items()}


def _fetched(entry: FetchResponse.PartitionData) -> RawFetch:
    if entry.error_code:
        return RawFetch(b"", (), 0, ErrorCode(entry.error_code))
    aborted = entry.aborted_transactions or []
    records = entry.records
    return RawFetch(
        records=bytes(records) if isinstance(records, memoryview) else b"",
        aborted=tuple((each.producer_id, each.first_offset) for each in aborted),
        log_start_offset=max(entry.log_start_offset, 0),
    )


def whole_batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    """Yield the batches of an answer, without a last one that is cut."""
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
