from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.partition_log import real_disk
from kbroker.pipeline.logdir.planning.batch_query import BatchQuery
from kbroker.pipeline.logdir.planning.filter_pushdown import Hints
from kbroker.pipeline.logdir.planning.source_options import parse_options
from kbroker.pipeline.logdir.planning.split_reading import read_split
from tests.fakes.disks.data_directory import DataDirectory, written
from tests.fakes.logs.log_maker import NOW_MS


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with written(tmp_path, segment_bytes=400) as directory:
        directory.fill(10)
        directory.fill(10, timestamp=NOW_MS + 1_000)
        directory.fill(5, partition=1)
        directory.fill(5, topic="u")
    return tmp_path


def query(path: Path, **options: str) -> BatchQuery:
    return BatchQuery(
        parse_options({"path": str(path), "columns": "topic,partition,offset", **options})
    )


def rows(asked: BatchQuery) -> list[tuple[str, int, int]]:
    found = (
        rows
        for tasks in asked.plan(real_disk())
        for rows in read_split(real_disk(), tasks, asked.reading)
    )
    return [tuple(row.values()) for each in found for row in each.to_pylist()]


def planned_bytes(asked: BatchQuery) -> int:
    return sum(task.size_bytes for tasks in asked.plan(real_disk()) for task in tasks)


def of(topic: str, partition: int, start: int, end: int) -> list[tuple[str, int, int]]:
    return [(topic, partition, offset) for offset in range(start, end)]


def test_everything_comes_by_topic_partition_and_offset(path: Path) -> None:
    assert rows(query(path)) == of("t", 0, 0, 20) + of("t", 1, 0, 5) + of("u", 0, 0, 5)


def test_offsets_bound_what_is_read_and_ends_say_which_partitions(path: Path) -> None:
    asked = query(
        path,
        startingOffsets='{"t": {"0": 3, "1": -1}}',
        endingOffsets='{"t": {"0": 7}, "u": {"0": -1}}',
    )

    assert rows(asked) == of("t", 0, 3, 7) + of("u", 0, 0, 5)


def test_no_end_at_all_reads_nothing(path: Path) -> None:
    assert rows(query(path, endingOffsets="{}")) == []


def test_times_choose_records(path: Path) -> None:
    asked = query(path, topics="t", startingTimestamp=str(NOW_MS + 1))

    assert rows(asked) == of("t", 0, 10, 20)
    asked = query(path, topics="t", partitions="0", endingTimestamp=str(NOW_MS + 1))
    assert rows(asked) == of("t", 0, 0, 10)


@pytest.mark.parametrize(
    ("offsets", "sentence"),
    [
        ({"startingOffsets": '{"x": {"3": 1}}'}, "no directory holds x-3, which the offsets name"),
        ({"endingOffsets": '{"t": {"0": 21}}'}, "can be read up to offset 20, and 21 was to be"),
        ({"startingOffsets": '{"t": {"0": 21}}'}, "to be read from offset 21 to 20, and .* has 0"),
    ],
)
def test_offsets_that_are_not_there_end_the_query_or_are_left_out(
    path: Path, offsets: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence):
        rows(query(path, **offsets))
    assert len(rows(query(path, failOnDataLoss="false", **offsets))) > 0


def test_records_that_were_deleted_end_the_query(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(10)
        directory.log().maybe_increment_log_start_offset(4)

    with pytest.raises(PipelineError, match="t-0 begins with offset 4, and 2 was to be read"):
        rows(query(tmp_path, startingOffsets='{"t": {"0": 2}}'))
    lenient = query(tmp_path, startingOffsets='{"t": {"0": 2}}', failOnDataLoss="false")
    assert rows(lenient) == of("t", 0, 4, 10)
    assert rows(query(tmp_path)) == of("t", 0, 4, 10)


def test_a_topic_or_pattern_that_finds_nothing_is_one_sentence(path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no such topic in .*: x"):
        rows(query(path, topics="t,x"))
    with pytest.raises(PipelineError, match=r"no such topic in .*: uu, did you mean u\?$"):
        rows(query(path, topics="t,uu"))
    with pytest.raises(PipelineError, match=r"no topic in .* matches x\.\*"):
        rows(query(path, topicsPattern="x.*"))


def test_hints_spare_reading(path: Path) -> None:
    hints = Hints(
        topics=frozenset({"t"}), partitions=frozenset({0}), first_offset=12, last_offset=14
    )

    narrowed = query(path).narrowed(hints)

    assert rows(narrowed) == of("t", 0, 12, 15)
    assert 0 < planned_bytes(narrowed) < planned_bytes(query(path)) / 5


def test_options_spare_as_much_reading_as_hints(path: Path) -> None:
    hints = Hints(
        topics=frozenset({"t"}),
        partitions=frozenset({0}),
        first_offset=12,
        last_offset=14,
        min_timestamp_ms=NOW_MS + 500,
    )
    asked = query(
        path,
        topics="t",
        partitions="0",
        startingOffsets='{"t": {"0": 12}}',
        endingOffsets='{"t": {"0": 15}}',
        startingTimestamp=str(NOW_MS + 500),
    )

    assert asked.plan(real_disk()) == query(path).narrowed(hints).plan(real_disk())


def test_hints_of_times_and_times_that_were_asked_for_both_hold(path: Path) -> None:
    asked = query(path, endingTimestamp=str(NOW_MS + 2_000), topics="t")
    hints = Hints(min_timestamp_ms=NOW_MS + 500, max_timestamp_ms=NOW_MS + 9_000)

    assert rows(asked.narrowed(hints)) == of("t", 0, 10, 20)
    assert asked.narrowed(hints).reading.read.max_timestamp_ms == NOW_MS + 1_999


def test_hints_do_not_bring_internal_topics(tmp_path: Path) -> None:
    with written(tmp_path) as directory:
        directory.fill(1, topic="__consumer_offsets")
        directory.fill(1)

    assert rows(query(tmp_path).narrowed(Hints(topics=frozenset({"__consumer_offsets"})))) == []


def test_aborted_and_open_transactions_are_left_out_unless_all_is_wanted(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    directory.begin(1, b"a")
    directory.end(1, commits=False)
    directory.fill(2)
    directory.begin(2, b"b")
    directory.fill(1)
    directory.stop()
    everything = {"isolation.level": "read_uncommitted"}

    assert [row[2] for row in rows(query(tmp_path))] == [2, 3]
    assert [row[2] for row in rows(query(tmp_path, **everything))] == [0, 2, 3, 4, 5]
    with_markers = query(tmp_path, includeControl="true", **everything)
    assert [row[2] for row in rows(with_markers)] == [0, 1, 2, 3, 4, 5]
