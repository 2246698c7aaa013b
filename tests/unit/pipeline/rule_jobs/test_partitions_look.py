"""Which partitions a source has, and which of them were not read to their end."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.rule_jobs.partitions_look import PartitionsLook, look_at

ENDS = {TopicPartition("t", number): end for number, end in ((0, 10), (1, 10), (2, 5), (3, 5))}
STARTS = {TopicPartition("t", number): start for number, start in ((0, 0), (1, 0), (2, 5), (3, 2))}


class Known:
    """A source as brokers tell it."""

    def latest(self) -> dict[TopicPartition, int]:
        return ENDS

    def earliest(self) -> dict[TopicPartition, int]:
        return STARTS


def away() -> NoReturn:
    raise PipelineError("nobody answers", ExitCode.CANNOT_CONNECT)


def source(**instead: Any) -> Any:
    made: Any = Known()
    for name, function in instead.items():
        setattr(made, name, function)
    return made


def test_a_partition_is_behind_where_it_has_more_than_was_read() -> None:
    look = look_at(source(), {"t-0": 10, "t-1": 9})

    assert look is not None
    assert sorted(look.partitions) == ["t-0", "t-1", "t-2", "t-3"]
    assert sorted(look.behind) == ["t-1", "t-3"]  # all that t-2 had is deleted


@pytest.mark.parametrize("question", ["latest", "earliest"])
def test_nothing_is_known_where_nobody_answers(question: str) -> None:
    assert look_at(source(**{question: away}), {"t-0": 10}) is None


def test_who_has_read_all_need_not_know_where_it_began() -> None:
    read = {str(partition): end for partition, end in ENDS.items()}

    assert look_at(source(earliest=away), read) == PartitionsLook(read.keys(), {}.keys())
