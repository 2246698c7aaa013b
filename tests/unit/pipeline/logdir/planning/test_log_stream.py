from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.partition_log import Disk, real_disk
from kbroker.pipeline.logdir.planning.batch_query import Splits, reading_of
from kbroker.pipeline.logdir.planning.log_stream import LogStream
from kbroker.pipeline.logdir.planning.source_options import parse_options
from kbroker.pipeline.logdir.planning.split_reading import read_split
from kbroker.pipeline.spark_job.offsets import Offsets
from tests.fakes.disks.data_directory import DataDirectory

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[DataDirectory]:
    directory = DataDirectory(tmp_path, segment_bytes=400, file_delete_delay_ms=0)
    directory.fill(10)
    directory.checkpoint()
    yield directory
    directory.kill()


def stream(path: Path, **options: str) -> LogStream:
    given = {"path": str(path), "columns": "partition,offset", **options}
    return LogStream(parse_options(given), real_disk())


def rows(plan: Splits, path: Path) -> list[tuple[int, int]]:
    reading = reading_of(parse_options({"path": str(path), "columns": "partition,offset"}))
    found = (rows for tasks in plan for rows in read_split(real_disk(), tasks, reading))
    return [(row["partition"], row["offset"]) for each in found for row in each.to_pylist()]


def offsets(start: int, end: int, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


def test_a_new_query_begins_with_the_first_record(directory: DataDirectory) -> None:
    found = stream(directory.path)

    assert found.initial() == {T0: 0}
    assert found.latest() == {T0: 10}


def test_a_new_query_may_begin_with_what_comes(directory: DataDirectory) -> None:
    found = stream(directory.path, startingOffsets="latest")
    directory.fill(2)

    assert found.initial() == {T0: 10}


def test_a_beginning_is_decided_once(directory: DataDirectory) -> None:
    found = stream(directory.path, startingOffsets="latest")
    first = found.initial()
    directory.fill(2)
    directory.checkpoint()

    assert (found.initial(), found.latest()) == (first, {T0: 12})


def test_partitions_that_given_offsets_do_not_name_begin_with_their_log(
    directory: DataDirectory,
) -> None:
    directory.fill(3, partition=1)
    directory.checkpoint()

    assert stream(directory.path, startingOffsets='{"t": {"0": 4}}').initial() == {T0: 4, T1: 0}


def test_a_batch_is_shared_out_by_what_each_partition_has(directory: DataDirectory) -> None:
    directory.fill(30, partition=1)
    directory.fill(1, topic="u")
    directory.checkpoint()
    found = stream(directory.path, maxRecordsPerTrigger="8")

    assert found.latest() == {T0: 1, T1: 5, U0: 1}


def test_a_query_that_goes_on_is_bounded_from_where_it_stands(directory: DataDirectory) -> None:
    found = stream(directory.path, maxRecordsPerTrigger="3")

    assert found.plan({T0: 4}, {T0: 4}) == []

    assert found.latest() == {T0: 7}


def test_every_range_is_read_once_and_again_just_so(directory: DataDirectory) -> None:
    found = stream(directory.path)

    first = rows(found.plan({T0: 0}, {T0: 6}), directory.path)
    second = rows(found.plan({T0: 6}, {T0: 10}), directory.path)
    again = rows(found.plan({T0: 6}, {T0: 10}), directory.path)

    assert (first, second, again) == (offsets(0, 6), offsets(6, 10), offsets(6, 10))


def test_a_new_partition_is_read_from_its_first_record(directory: DataDirectory) -> None:
    directory.fill(4, partition=1)
    directory.checkpoint()

    plan = stream(directory.path).plan({T0: 10}, {T0: 10, T1: 4})

    assert rows(plan, directory.path) == offsets(0, 4, partition=1)


def test_retention_that_came_first_ends_the_query_or_is_passed_over(
    directory: DataDirectory,
) -> None:
    directory.fill(30)
    directory.retain(25)
    directory.checkpoint()
    start = directory.log().log_start_offset

    with pytest.raises(PipelineError, match=f"begins with offset {start}, and 3 was to be read"):
        stream(directory.path).plan({T0: 3}, {T0: 30})
    plan = stream(directory.path, failOnDataLoss="false").plan({T0: 3}, {T0: 30})

    assert rows(plan, directory.path) == offsets(start, 30)


def test_a_partition_that_went_ends_the_query_or_is_passed_over(directory: DataDirectory) -> None:
    reason = "no directory holds t-9, which the offsets name"

    with pytest.raises(PipelineError, match=reason):
        stream(directory.path).latest_from({T0: 0, TopicPartition("t", 9): 5}, None)
    with pytest.raises(PipelineError, match=reason):
        stream(directory.path).plan({}, {TopicPartition("t", 9): 5})
    lenient = stream(directory.path, failOnDataLoss="false")

    assert lenient.latest_from({T0: 0, TopicPartition("t", 9): 5}, None) == {T0: 10}


def test_a_log_that_was_made_again_ends_the_query_or_is_begun_at_its_end(
    directory: DataDirectory,
) -> None:
    with pytest.raises(PipelineError, match=r"t-0 ends with offset 10 .* and was read up to 50"):
        stream(directory.path).latest_from({T0: 50}, None)
    lenient = stream(directory.path, failOnDataLoss="false")

    assert lenient.latest_from({T0: 50}, None) == {T0: 10}
    assert lenient.plan({T0: 50}, {T0: 10}) == []


def test_a_broker_that_was_started_anew_may_speak_of_less_for_a_while(
    directory: DataDirectory,
) -> None:
    directory.checkpoint(t_0=4)
    found = stream(directory.path)

    assert found.latest_from({T0: 8}, None) == {T0: 8}
    assert rows(found.plan({T0: 2}, {T0: 8}), directory.path) == offsets(2, 8)


def test_aborted_records_stay_out_where_a_broker_speaks_of_less_for_a_while(
    directory: DataDirectory,
) -> None:
    directory.begin(7, b"a")
    directory.end(7, commits=False)
    directory.fill(1)
    directory.checkpoint(t_0=10)

    plan = stream(directory.path).plan({T0: 9}, {T0: 13})

    assert rows(plan, directory.path) == [(0, 9), (0, 12)]


def test_a_marker_behind_the_end_of_a_batch_is_found_where_a_broker_speaks_of_less(
    directory: DataDirectory,
) -> None:
    directory.begin(7, b"aborted")
    directory.begin(8, b"committed")
    directory.fill(3)
    directory.end(7, commits=False)
    directory.end(8, commits=True)
    directory.checkpoint(t_0=14)

    plan = stream(directory.path).plan({T0: 9}, {T0: 13})

    assert rows(plan, directory.path) == [(0, 9), *offsets(11, 13)]


def test_a_topic_that_was_made_anew_ends_the_query_or_is_read_from_where_it_stands(
    directory: DataDirectory,
) -> None:
    directory.make_anew(UUID(int=1))
    directory.fill(5)
    directory.checkpoint()
    strict = stream(directory.path)
    lenient = stream(directory.path, failOnDataLoss="false")
    assert strict.latest() == lenient.latest() == {T0: 5}
    directory.make_anew(UUID(int=2))
    directory.fill(9)
    directory.checkpoint()

    reason = rf"t-0 .* belongs to another topic .*{UUID(int=2)}.*{UUID(int=1)}.*new checkpoint"
    with pytest.raises(PipelineError, match=reason):
        strict.latest_from({T0: 5}, None)
    with pytest.raises(PipelineError, match=reason):
        strict.plan({T0: 5}, {T0: 9})
    assert lenient.latest_from({T0: 5}, None) == {T0: 9}
    assert rows(lenient.plan({T0: 5}, {T0: 9}), directory.path) == offsets(5, 9)


def test_a_log_that_is_given_an_id_later_is_the_same(directory: DataDirectory) -> None:
    found = stream(directory.path)
    plan = found.plan({T0: 0}, found.latest())
    directory.log().assign_topic_id(UUID(int=1))
    directory.fill(1)  # the last segment is not what it was
    directory.checkpoint()

    assert found.latest_from({T0: 10}, None) == {T0: 11}
    assert rows(plan, directory.path) == offsets(0, 10)


def test_open_transactions_hold_a_query_back(directory: DataDirectory) -> None:
    directory.begin(7, b"a")
    directory.fill(5)
    directory.checkpoint()

    assert stream(directory.path).latest() == {T0: 10}
    uncommitted = {"isolation.level": "read_uncommitted"}
    assert stream(directory.path, **uncommitted).latest() == {T0: 16}


def test_what_comes_after_the_target_is_left_for_the_next_run(directory: DataDirectory) -> None:
    found = stream(directory.path)
    found.fix_target()
    directory.fill(5)
    directory.fill(5, partition=1)
    directory.checkpoint()

    steps: list[Offsets] = [{T0: 0}]
    for _ in range(4):
        steps.append(found.latest_from(steps[-1], 4))

    assert steps[1:] == [{T0: 4}, {T0: 8}, {T0: 10}, {T0: 10}]
    assert found.end() == {T0: 15, T1: 5}


def test_a_topic_that_is_not_there_is_one_sentence(directory: DataDirectory) -> None:
    with pytest.raises(PipelineError, match=r"no such topic in .*: orders"):
        stream(directory.path, topics="orders").initial()


def test_segments_that_went_while_planning_are_looked_for_again(directory: DataDirectory) -> None:
    directory.fill(30)
    directory.checkpoint()
    first = str(min((directory.path / "t-0").glob("*.log")))

    class Cleaning(RealFileSystem):
        """Merges the first segments when the first is opened."""

        is_done = False

        def open(self, path: str, **how: bool):  # type: ignore[no-untyped-def, override]
            if path == first and not self.is_done:
                self.is_done = True
                self.unlink(path)
            return super().open(path, **how)

    options = parse_options({"path": str(directory.path), "failOnDataLoss": "false"})
    found = LogStream(options, Disk(Cleaning()))

    start = rows(found.plan({T0: 0}, {T0: 40}), directory.path)[0][1]
    assert start > 0
