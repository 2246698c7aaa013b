"""What stands in the logs of a cluster around holes: raw batches, fetched as a consumer of
committed records does (KIP-98), so that the answer names the aborted transactions too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from kbroker.client.connection import admin_client
from kbroker.model import TopicPartition
from kbroker.pipeline.archive.holes.hole_reasons import Cover, CoverKind, Surroundings
from kbroker.pipeline.archive.manifests.covered_ranges import Stretch
from kbroker.pipeline.archive.raw_fetch import RawFetch, fetch_raw, leader_of, whole_batches
from kbroker.pipeline.cluster_errors import cluster_errors
from kbroker.record.record_batch import MAGIC, read_control, records

# A marker alone is one batch, and holes of compaction go on over a whole log: an answer is asked
# four times as large as the one before it as long as they lie side by side. The first batch of an
# answer comes whole, however large it is.
_LEAST_BYTES, _MOST_BYTES, _GROWTH = 64 * 1024, 4 * 1024 * 1024, 4
_ENDLESS = 2**63 - 1


Fetch = Callable[[int, int], RawFetch]  # from an offset on, about so many bytes


class ClusterWitness:
    """Looks at partitions of a running cluster, one request for each hole or group of holes."""

    def __init__(self, bootstrap: str, options: Mapping[str, Any] | None = None) -> None:
        self._bootstrap = bootstrap
        self._options = options  # of kafka-python

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> Surroundings:
        """The batches that hold offsets of these holes."""
        with cluster_errors(), admin_client(self._bootstrap, self._options) as client:
            leader = leader_of(client, partition)
            return look(
                partial(fetch_raw, client, leader, partition),
                holes,
                is_compacted=_is_compacted(client, partition.topic),
            )


def look(fetch: Fetch, holes: Sequence[Stretch], *, is_compacted: bool) -> Surroundings:
    """Fetch around the holes: one answer often serves many that lie close together."""
    found: dict[int, Cover] = {}
    log_start_offset = 0
    at = 0  # all batches before it have been seen
    span, size_bytes = 0, _LEAST_BYTES  # offsets and size of the last answer
    for hole in holes:
        is_near = hole.start_offset - at <= span
        at = max(at, hole.start_offset)
        while at < hole.end_offset:
            size_bytes = (
                min(size_bytes * _GROWTH, _MOST_BYTES) if is_near and span else _LEAST_BYTES
            )
            answer = fetch(at, size_bytes)
            log_start_offset = max(log_start_offset, answer.log_start_offset)
            next_offset = max(at, min(answer.log_start_offset, hole.end_offset))
            for cover in _covers(answer):
                found[cover.base_offset] = cover
                next_offset = max(next_offset, cover.last_offset + 1)
            if next_offset == at:
                break  # nothing stands there up to the end of what may be read
            span, at, is_near = next_offset - at, next_offset, True
    return Surroundings(
        covers=[found[base] for base in sorted(found)],
        log_start_offset=log_start_offset,
        compacted_end_offset=_ENDLESS if is_compacted else 0,
    )


def _covers(answer: RawFetch) -> Iterator[Cover]:
    """The whole batches of an answer; transactions end with their markers, as for consumers."""
    waiting = sorted(answer.aborted, key=lambda each: each[1])
    open_producers: set[int] = set()
    for header, data in whole_batches(answer.records):
        while waiting and waiting[0][1] <= header.last_offset:
            open_producers.add(waiting.pop(0)[0])
        count = header.record_count if header.magic == MAGIC else -1
        if header.is_control:
            kind = CoverKind.MARKER
            if not _is_commit(data):
                open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            kind = CoverKind.ABORTED
        else:
            kind = CoverKind.RECORDS
        yield Cover(header.base_offset, header.last_offset, count, kind)


def _is_commit(batch: bytes) -> bool:
    record = next(records(batch), None)
    marker = read_control(record) if record is not None else None
    return marker is not None and marker.is_commit


def _is_compacted(client: Any, topic: str) -> bool:
    from kafka.admin import ConfigResource, ConfigResourceType

    wanted = ConfigResource(ConfigResourceType.TOPIC, topic)
    found = client.describe_configs([wanted], config_filter="all")["topic"][topic]
    return "compact" in str(found.get("cleanup.policy", {}).get("value"))
