"""Timestamps of the records that groups will read next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import CorruptRecordError
from kafka.structs import TopicPartition

from kbroker.pipeline.lag.record_times import record_times

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
END = {P0: 10, P1: 10}


class Log:
    """A consumer over offsets and their timestamps; one record per poll, as it is asked for."""

    def __init__(self, times: Mapping[TopicPartition, Mapping[int, int]]) -> None:
        self._times = times
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self.assigned: list[int] = []

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.assigned.append(len(partitions))
        self._positions, self._paused = {}, set()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._positions[partition] = offset

    def pause(self, partition: TopicPartition) -> None:
        self._paused.add(partition)

    def position(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
        assert max_records == 1
        for partition, position in self._positions.items():
            if partition in self._paused or partition not in self._times:
                continue
            later = [offset for offset in self._times[partition] if offset >= position]
            self._positions[partition] = min(later) + 1 if later else 10
            if later:
                record = SimpleNamespace(timestamp=self._times[partition][min(later)])
                return {partition: [record]}
        return {}


@pytest.fixture
def opened() -> list[Log]:
    return []


def opener(
    opened: list[Log], times: Mapping[TopicPartition, Mapping[int, int]]
) -> Callable[[], AbstractContextManager[Any]]:
    @contextmanager
    def open_one() -> Iterator[Log]:
        opened.append(Log(times))
        yield opened[-1]

    return open_one


def test_a_batch_that_cannot_be_read_hides_no_other_partition(opened: list[Log]) -> None:
    class Broken(Log):
        def poll(self, timeout_ms: int, max_records: int) -> dict[TopicPartition, list[Any]]:
            if P0 in self._positions and P0 not in self._paused:
                raise CorruptRecordError
            return super().poll(timeout_ms, max_records)

    @contextmanager
    def open_one() -> Iterator[Log]:
        yield Broken({P1: {0: 100}})

    assert record_times(open_one, {P0: {4}, P1: {0}}, END) == {(P1, 0): 100}


def test_the_time_is_that_of_the_first_record_from_there_on(opened: list[Log]) -> None:
    times = {P0: {3: 300, 7: 700}, P1: {0: 100}}

    found = record_times(opener(opened, times), {P0: {4}, P1: {0}}, END)

    assert found == {(P0, 4): 700, (P1, 0): 100}


def test_where_nothing_follows_there_is_no_time(opened: list[Log]) -> None:
    found = record_times(opener(opened, {P0: {3: 300}}), {P0: {4}}, END)

    assert found == {(P0, 4): None}


def test_a_record_of_a_format_without_times_has_none(opened: list[Log]) -> None:
    assert record_times(opener(opened, {P0: {3: -1}}), {P0: {3}}, END) == {(P0, 3): None}


def test_two_places_in_a_partition_are_read_by_two_consumers(opened: list[Log]) -> None:
    times = {P0: {3: 300, 7: 700}, P1: {0: 100}}

    found = record_times(opener(opened, times), {P0: {7, 1}, P1: {0}}, END)

    assert found == {(P0, 1): 300, (P0, 7): 700, (P1, 0): 100}
    assert [consumer.assigned for consumer in opened] == [[2], [1]]


def test_many_partitions_are_read_in_parts(opened: list[Log]) -> None:
    partitions = [TopicPartition("t", number) for number in range(250)]
    times = {partition: {0: 5} for partition in partitions}

    found = record_times(
        opener(opened, times), {p: {0} for p in partitions}, dict.fromkeys(partitions, 10)
    )

    assert len(found) == 250
    assert [consumer.assigned for consumer in opened] == [[100, 100, 50]]


def test_what_does_not_answer_in_time_is_left_out(opened: list[Log]) -> None:
    seconds = count()

    found = record_times(
        opener(opened, {P0: {3: 300}}), {P0: {3}, P1: {0}}, END, clock=lambda: float(next(seconds))
    )

    assert found == {(P0, 3): 300}


def test_nobody_behind_opens_no_consumer(opened: list[Log]) -> None:
    assert record_times(opener(opened, {}), {}, {}) == {}
    assert not opened
