from __future__ import annotations

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.logdir.planning import source_options
from kbroker.pipeline.logdir.planning.source_options import OPTIONS, SourceOptions, parse_options


def options(**given: str) -> SourceOptions:
    return parse_options({"path": "/data", **{k.replace("__", "."): v for k, v in given.items()}})


def test_nothing_but_a_path_reads_all_committed_records() -> None:
    found = options()

    assert found.paths == ("/data",)
    assert (found.is_committed, found.is_batch_detail, found.columns) == (True, False, None)
    assert (found.starting_offsets, found.ending_offsets) == ("earliest", "latest")
    assert (found.fails_on_data_loss, found.skips_damage, found.max_records) == (True, False, None)


def test_batches_are_all_shown_unless_only_committed_ones_are_asked_for() -> None:
    assert not options(detail="batch").is_committed
    assert options(detail="batch", isolation__level="read_committed").is_committed


@pytest.mark.parametrize("name", ["TOPICS", "topics", "subscribe"])
def test_names_are_taken_in_any_case_and_as_sparks_kafka_source_has_them(name: str) -> None:
    assert options(**{name: "a, b"}).selection.topics == {"a", "b"}


def test_paths_come_by_comma_or_as_a_list() -> None:
    assert parse_options({"path": "/a, /b"}).paths == ("/a", "/b")
    assert parse_options({"paths": '["/a", "/b,c"]'}).paths == ("/a", "/b,c")


def test_offsets_are_words_or_json() -> None:
    found = options(startingOffsets="LATEST", endingOffsets='{"t": {"0": 5, "1": -1}}')

    assert found.starting_offsets == "latest"
    assert found.ending_offsets == {TopicPartition("t", 0): 5, TopicPartition("t", 1): -1}


def test_the_ending_time_is_exclusive() -> None:
    found = options(startingTimestamp="5", endingTimestamp="9")

    assert (found.min_timestamp_ms, found.max_timestamp_ms) == (5, 8)
    assert found.splits.min_timestamp_ms == 5


def test_sizes_and_numbers_are_taken() -> None:
    found = options(
        maxPartitionBytes="1000", minPartitions="3", maxRecordsPerTrigger="7", partitions="0,12"
    )

    assert (found.splits.max_partition_bytes, found.splits.min_partitions) == (1000, 3)
    assert found.max_records == 7
    assert found.selection.partitions == {0, 12}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"topic": "a"}, "kbroker-log has no option topic, did you mean topics?"),
        ({"xyzzy": "a"}, "kbroker-log has no option xyzzy: there are columns, detail"),
        ({"detail": "batches"}, "detail is 'batches', it must be record or batch, did you mean"),
        ({"isolation__level": "committed"}, "must be read_committed or read_uncommitted"),
        ({"onDamage": "ignore"}, "onDamage is 'ignore', it must be fail or skip"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss is 'yes', it must be true or false"),
        ({"partitions": "a"}, "partitions is 'a', it must be numbers separated by commas"),
        ({"topics": " , "}, "topics is ' , ', it must be at least one"),
        ({"topicsPattern": "("}, r"topicsPattern is '\(', it must be a regular expression"),
        ({"topics": "a", "topicsPattern": "b"}, "takes topics or topicsPattern, not both"),
        ({"maxRecordsPerTrigger": "0"}, "'0', it must be a number, at least 1"),
        ({"minPartitions": "-1"}, "'-1', it must be a number, at least 1"),
        ({"startingOffsets": "first"}, "it must be earliest, latest or JSON"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "offsets from 0 on, or -2 for the earliest"),
        ({"startingTimestamp": "x"}, "startingTimestamp is 'x', it must be a number"),
        ({"startingTimestamp": "9", "endingTimestamp": "9"}, "a time after startingTimestamp, 9"),
        ({"detail": "batch", "startingTimestamp": "9"}, "filter by maxTimestamp instead"),
    ],
)
def test_a_mistake_is_one_sentence(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence) as caught:
        options(**given)
    assert caught.value.code is ExitCode.USAGE


def test_a_path_is_needed() -> None:
    with pytest.raises(PipelineError, match="kbroker-log needs a path"):
        parse_options({})


def test_the_documentation_names_every_option() -> None:
    documentation = source_options.__doc__ or ""

    assert [name for name in OPTIONS if f"\n{name} " not in documentation] == []
