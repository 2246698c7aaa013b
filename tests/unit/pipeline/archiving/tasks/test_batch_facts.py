"""What tasks said, put together; none of them is believed alone."""

from __future__ import annotations

import struct

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.tasks.batch_facts import joined_facts
from kbroker.pipeline.archiving.tasks.task_facts import (
    Fact,
    FileFact,
    PartFact,
    TroubleFact,
    decode_fact,
)
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.offsets import OffsetRange
from tests.fakes.archives.archive_maker import file_entry

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RANGES = {T0: OffsetRange(10, 30), T1: OffsetRange(0, 5)}


def part(first: int, last: int, rows: int, *gaps: int, partition: int = 0) -> tuple[Fact, bytes]:
    return PartFact("t", partition, first, last, rows), struct.pack(f"={len(gaps)}q", *gaps)


def test_parts_of_several_tasks_make_one_partition_with_all_that_is_missing() -> None:
    facts = [part(20, 27, 8), part(12, 18, 5, 14, 16)]

    found = joined_facts(facts, RANGES)

    assert found.partitions[T0].rows == 13
    assert found.partitions[T0].missing == [(10, 12), (14, 16), (19, 20), (28, 30)]
    assert found.partitions[T1].missing == [(0, 5)]


def test_files_keep_their_staged_path() -> None:
    fact = FileFact("/s/0.parquet", file_entry(10, 29))

    (staged,) = joined_facts([(fact, b""), part(10, 29, 20)], RANGES).files

    assert (staged.staged_path, staged.entry) == ("/s/0.parquet", file_entry(10, 29))


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (
            [part(10, 20, 11), part(15, 29, 15)],
            "gave offsets 15 to 29 of t-0, and 21 to 29 were due",
        ),
        ([part(9, 29, 21)], "gave offsets 9 to 29 of t-0, and 10 to 29 were due"),
        ([part(10, 30, 21)], "gave offsets 10 to 30 of t-0"),
        ([part(0, 1, 2, partition=5)], "gave records of t-5, which is not in this batch"),
        ([(TroubleFact("the disk is full"), b"")], "the disk is full"),
    ],
)
def test_facts_that_contradict_each_other_end_the_batch(
    facts: list[tuple[Fact, bytes]], sentence: str
) -> None:
    with pytest.raises(PipelineError, match=sentence):
        joined_facts(facts, RANGES)


def test_a_fact_travels_as_text() -> None:
    import msgspec

    fact = FileFact("/s/0.parquet", file_entry(10, 29))

    assert decode_fact(msgspec.json.encode(fact).decode()) == fact
