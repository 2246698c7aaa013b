"""Evidence from a running cluster: its id and leader epochs, asked for as a consumer does
(KIP-320), and what is in its logs around holes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kbroker.client.cluster_configs import Resource, describe_configs
from kbroker.client.cluster_links import LATEST, ClusterLinks
from kbroker.client.raw_fetch import RawFetch, fetch_raw, whole_batches
from kbroker.client.topic_figures import epoch_ends, found_at, leaders_in
from kbroker.config.config_resources import ResourceType
from kbroker.errors import KafkaError
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.hole_reasons import Cover, CoverKind, HoleContext
from kbroker.pipeline.archiving.evidence.same_source import Epochs, time_at
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.cluster_errors import cluster_links
from kbroker.pipeline.errors import PipelineError
from kbroker.record.record_batch import MAGIC, read_control, records

_ONE_BATCH_BYTES = 1  # the first batch comes whole

# A marker alone is one batch, and holes of compaction go on over a whole log: while holes lie side
# by side, each answer may be four times as large as the one before. The first batch of an answer
# comes whole, however large it is.
_LEAST_BYTES, _MOST_BYTES, _GROWTH = 64 * 1024, 4 * 1024 * 1024, 4
_ENDLESS = 2**63 - 1


Fetch = Callable[[int, int], RawFetch]  # from an offset on, about so many bytes


class ClusterIdentity:
    """Opens one connection per question."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def cluster_id(self) -> str | None:
        """Ask any broker of the cluster."""
        with cluster_links(self._bootstrap) as links:
            return links.describe([]).cluster_id or None

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Epochs:
        """Ask the leaders: other brokers may not have heard of an election yet."""
        with cluster_links(self._bootstrap) as links:
            found = found_at(links, _leaders(links, set(partitions)), LATEST)
        return {place: at.leader_epoch for place, at in found.items() if at.leader_epoch >= 0}

    def end_offsets(self, epochs: Epochs) -> Mapping[TopicPartition, int]:
        """Ask with one request per leader."""
        with cluster_links(self._bootstrap) as links:
            return epoch_ends(links, _leaders(links, set(epochs)), epochs)

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Ask with one request per partition: a leader answers as little as one batch."""
        found: dict[TopicPartition, int] = {}
        with cluster_links(self._bootstrap) as links:
            for place, leader in _leaders(links, set(offsets)).items():
                at = {place: offsets[place]}
                answer = fetch_raw(links, leader, at, _ONE_BATCH_BYTES, only_committed=True)[place]
                for header, data in whole_batches(answer.records):
                    at_ms = time_at(header, data, offsets[place])
                    if at_ms is not None:
                        found[place] = at_ms
        return found


def _leaders(links: ClusterLinks, wanted: set[TopicPartition]) -> dict[TopicPartition, int]:
    leaders = leaders_in(links.topics({partition.topic for partition in wanted}))
    return {place: leader for place, leader in leaders.items() if place in wanted}


class ClusterWitness:
    """Looks at partitions of a running cluster, one request for each hole or group of holes."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def surroundings(self, partition: TopicPartition, holes: Sequence[Stretch]) -> HoleContext:
        """Return the batches that hold offsets of these holes."""
        with cluster_links(self._bootstrap) as links:
            leader = links.topic(partition.topic).leaders.get(partition.partition)
            if leader is None:
                raise PipelineError(f"{partition} has gone from the cluster while it was archived")

            def fetch(offset: int, size_bytes: int) -> RawFetch:
                at = {partition: offset}
                answer = fetch_raw(links, leader, at, size_bytes, only_committed=True)[partition]
                if answer.code:
                    raise PipelineError(
                        f"{partition} cannot be read around offset {offset}: "
                        f"{answer.code.name}; run again"
                    )
                return answer

            return look(fetch, holes, is_compacted=_is_compacted(links, partition.topic))


def look(fetch: Fetch, holes: Sequence[Stretch], *, is_compacted: bool) -> HoleContext:
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
    return HoleContext(
        covers=[found[base] for base in sorted(found)],
        log_start_offset=log_start_offset,
        compacted_end_offset=_ENDLESS if is_compacted else 0,
    )


def _covers(answer: RawFetch) -> Iterator[Cover]:
    """Yield the whole batches of an answer; markers end transactions, as for consumers."""
    waiting = sorted(answer.aborted, key=lambda each: each[1])
    open_producers: set[int] = set()
    for header, data in whole_batches(answer.records):
        while waiting and waiting[0][1] <= header.last_offset:
            open_producers.add(waiting.pop(0)[0])
        count = header.record_count if header.magic == MAGIC else -1
        if header.is_control:
            kind = CoverKind.MARKER
            if _may_be_abort(data):
                open_producers.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in open_producers:
            kind = CoverKind.ABORTED
        else:
            kind = CoverKind.RECORDS
        yield Cover(header.base_offset, header.last_offset, count, kind)


def _may_be_abort(batch: bytes) -> bool:
    """Return whether a marker ends an aborted transaction, or cannot be read."""
    try:
        record = next(records(batch), None)
        marker = read_control(record) if record is not None else None
    except KafkaError:
        return True
    return marker is None or not marker.is_commit


def _is_compacted(links: ClusterLinks, topic: str) -> bool:
    resource = Resource(ResourceType.TOPIC, topic)
    settings = describe_configs(links, [resource], ["cleanup.policy"])[resource]
    return any("compact" in str(each.value) for each in settings)
