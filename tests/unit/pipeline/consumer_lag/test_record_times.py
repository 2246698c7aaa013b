"""Timestamps of the records that groups will read next."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count
from typing import Any, cast

from kbroker.client.cluster_links import ClusterLinks, TopicView
from kbroker.errors import ErrorCode
from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.record_times import Times, record_times
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from kbroker.record.record_batch import (
    LOG_APPEND_TIME,
    BatchOptions,
    ControlRecord,
    Record,
    build,
    build_marker,
)

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
END = {P0: 10, P1: 10}


def batch(offset: int, time_ms: int, value: bytes = b"v", **options: Any) -> bytes:
    entries = [Record(offset, time_ms, None, value)]
    return build(entries, base_offset=offset, options=BatchOptions(**options))


def log(times: Mapping[int, int]) -> list[tuple[int, bytes]]:
    """Batches of a record each, with their last offsets."""
    return [(offset, batch(offset, time_ms)) for offset, time_ms in times.items()]


class Cluster:
    """Brokers whose logs are these; a partition without one answers nothing."""

    def __init__(
        self,
        logs: Mapping[TopicPartition, list[tuple[int, bytes]]],
        leaders: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        self.logs = logs
        self.leaders = leaders or {}
        self.starts: dict[TopicPartition, int] = {}
        self.gone: set[int] = set()
        self.asked: list[int] = []  # partitions per question

    def topics(self, names: Collection[str]) -> list[TopicView]:
        leaders = {p.partition: self.leaders.get(p, 1) for p in [*self.logs, P0, P1]}
        return [TopicView(name=name, code=ErrorCode.NONE, leaders=leaders) for name in names]

    def ask(self, node_id: int, request: Any) -> Any:
        if node_id in self.gone:
            raise ConnectionRefusedError("gone")
        (topic,) = request.topics
        if isinstance(request, ListOffsetsRequest):
            return self._started([each.partition_index for each in topic.partitions])
        assert isinstance(request, FetchRequest)
        self.asked.append(len(topic.partitions))
        has_one, rows = False, []
        for wanted in topic.partitions:
            row = self._fetched(wanted, is_first=not has_one)
            has_one = has_one or bool(row.records)
            rows.append(row)
        response = FetchResponse.FetchableTopicResponse(topic=topic.topic, partitions=rows)
        return FetchResponse(responses=[response])

    def _fetched(
        self, wanted: FetchRequest.FetchPartition, *, is_first: bool
    ) -> FetchResponse.PartitionData:
        place = TopicPartition("t", wanted.partition)
        code = ErrorCode.NONE
        if wanted.fetch_offset < self.starts.get(place, 0):
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        found = [data for last, data in self.logs.get(place, []) if last >= wanted.fetch_offset]
        size = max(wanted.partition_max_bytes, len(found[0]) if found and is_first else 0)
        return FetchResponse.PartitionData(
            partition_index=wanted.partition,
            error_code=code,
            records=memoryview(b"" if code else b"".join(found)[:size]),
        )

    def _started(self, numbers: list[int]) -> ListOffsetsResponse:
        rows = [
            ListOffsetsResponse.ListOffsetsPartitionResponse(
                partition_index=number, offset=self.starts[TopicPartition("t", number)]
            )
            for number in numbers
        ]
        topics = [ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=rows)]
        return ListOffsetsResponse(topics=topics)


def times_in(
    cluster: Cluster, positions: Mapping[TopicPartition, Collection[int]], **options: Any
) -> Times:
    ends = dict.fromkeys(positions, 10)
    return record_times(cast("ClusterLinks", cluster), positions, ends, **options)


def test_a_batch_that_cannot_be_read_hides_no_other_partition() -> None:
    broken = bytearray(batch(4, 400))
    broken[-1] ^= 1
    cluster = Cluster({P0: [(4, bytes(broken))], P1: log({0: 100})})

    assert times_in(cluster, {P0: {4}, P1: {0}}) == {(P1, 0): 100}


def test_the_time_is_that_of_the_first_record_from_there_on() -> None:
    cluster = Cluster({P0: log({3: 300, 7: 700}), P1: log({0: 100})})

    assert times_in(cluster, {P0: {4}, P1: {0}}) == {(P0, 4): 700, (P1, 0): 100}


def test_a_batch_that_was_stamped_has_that_time() -> None:
    stamped = build(
        [Record(0, 3, None, b"v")],
        base_offset=0,
        options=BatchOptions(flags=LOG_APPEND_TIME << 3, max_timestamp=5),
    )
    cluster = Cluster({P0: [(0, stamped)]})

    assert times_in(cluster, {P0: {0}}) == {(P0, 0): 5}


def test_markers_are_read_past_up_to_the_end() -> None:
    options = BatchOptions(producer_id=1, producer_epoch=0)
    marker = build_marker(ControlRecord(0, 1), 1, base_offset=9, options=options)
    cluster = Cluster({P0: [(9, marker)], P1: [(9, marker)]})

    assert times_in(cluster, {P0: {9}, P1: {9}}) == {(P0, 9): None, (P1, 9): None}


def test_a_record_of_a_format_without_times_has_none() -> None:
    assert times_in(Cluster({P0: log({3: -1})}), {P0: {3}}) == {(P0, 3): None}


def test_two_places_in_a_partition_take_two_questions() -> None:
    cluster = Cluster({P0: log({3: 300, 7: 700}), P1: log({0: 100})})

    assert times_in(cluster, {P0: {7, 1}, P1: {0}}) == {(P0, 1): 300, (P0, 7): 700, (P1, 0): 100}
    assert cluster.asked == [2, 1]


def test_many_partitions_are_read_in_parts() -> None:
    partitions = [TopicPartition("t", number) for number in range(250)]
    cluster = Cluster({partition: log({0: 5}) for partition in partitions})

    assert len(times_in(cluster, {p: {0} for p in partitions})) == 250
    assert cluster.asked == [100, 100, 50]


def test_batches_that_do_not_fit_are_asked_for_alone() -> None:
    large = [(0, batch(0, 100, bytes(40_000)))]
    cluster = Cluster({P0: large, P1: large})

    assert times_in(cluster, {P0: {0}, P1: {0}}) == {(P0, 0): 100, (P1, 0): 100}
    assert cluster.asked == [2, 1]


def test_records_that_retention_took_are_skipped() -> None:
    cluster = Cluster({P0: log({7: 700})})
    cluster.starts = {P0: 6}

    assert times_in(cluster, {P0: {2}}) == {(P0, 2): 700}


def test_what_does_not_answer_in_time_is_left_out() -> None:
    seconds = count(step=6)
    cluster = Cluster({P0: log({3: 300}), P1: log({0: 100})}, {P1: 2})

    assert times_in(cluster, {P0: {3}, P1: {0}}, clock=lambda: float(next(seconds))) == {
        (P0, 3): 300
    }


def test_a_broker_that_is_gone_hides_no_other() -> None:
    cluster = Cluster({P0: log({3: 300}), P1: log({0: 100})}, {P0: 2})
    cluster.gone = {2}

    assert times_in(cluster, {P0: {3}, P1: {0}}) == {(P1, 0): 100}


def test_a_partition_without_any_batch_is_given_up() -> None:
    cluster = Cluster({})

    assert times_in(cluster, {P0: {3}, P1: {0}}) == {}
    assert cluster.asked == [2, 1, 1]


def test_nobody_behind_asks_nobody() -> None:
    cluster = Cluster({})

    assert times_in(cluster, {}) == {}
    assert cluster.asked == []
