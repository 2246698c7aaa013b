from __future__ import annotations

from typing import Any

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.log_catalog import ReadableLog
from kbroker.pipeline.logdir.directory.partition_log import PartitionLog
from kbroker.pipeline.logdir.planning.read_ranges import available, check_there, wanted_range
from kbroker.pipeline.spark_job.offsets import OffsetRange

T0 = TopicPartition("t", 0)


def log(start: int, end: int) -> ReadableLog:
    return ReadableLog(
        PartitionLog(
            directory="/d/t-0",
            topic_partition=T0,
            topic_id=None,
            segments=(),
            snapshot_offsets=(),
            start_offset=start,
            end_offset=end,
            trusted_offset=end,
            is_live=False,
        ),
        None,
    )


@pytest.mark.parametrize(
    ("starting", "ending", "wanted"),
    [
        ("earliest", "latest", (5, 20)),
        ("latest", "latest", (20, 20)),
        ("latest", "earliest", (20, 20)),
        ({T0: 7}, {T0: 9}, (7, 9)),
        ({T0: -2}, {T0: -1}, (5, 20)),
        ({T0: 9}, {T0: 9}, (9, 9)),
        ({}, "latest", (5, 20)),
        ("earliest", {}, (5, 5)),
    ],
)
def test_offsets_and_words_give_a_range(starting: Any, ending: Any, wanted: Any) -> None:
    found = wanted_range(log(5, 20), starting, ending, fails_on_data_loss=True)

    assert (found.start, found.end) == wanted


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [(3, 9, (5, 9)), (3, 4, (5, 5)), (18, 25, (18, 20)), (22, 25, (20, 20)), (7, 9, (7, 9))],
)
def test_what_is_gone_is_left_out_where_that_was_asked_for(start: int, end: int, left: Any) -> None:
    found = available(log(5, 20), OffsetRange(start, end), fails_on_data_loss=False)

    assert (found.start, found.end) == left


@pytest.mark.parametrize(("start", "end"), [(3, 9), (3, 4), (18, 25), (22, 25)])
def test_what_is_gone_ends_the_query(start: int, end: int) -> None:
    with pytest.raises(PipelineError, match="set failOnDataLoss=false"):
        available(log(5, 20), OffsetRange(start, end), fails_on_data_loss=True)


def test_nothing_to_read_is_never_missed() -> None:
    assert available(log(5, 20), OffsetRange(3, 3), fails_on_data_loss=True).count == 0


def test_many_missing_partitions_are_told_in_short() -> None:
    named = {TopicPartition("t", number): 0 for number in range(9)}

    with pytest.raises(PipelineError, match=r"no directory holds t-1, t-2, t-3, t-4, t-5, \.\.\.,"):
        check_there({T0: log(0, 1)}, named, fails_on_data_loss=True)
    check_there({T0: log(0, 1)}, named, fails_on_data_loss=False)
