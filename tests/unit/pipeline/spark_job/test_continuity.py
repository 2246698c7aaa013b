"""A job goes on only where its source still has what comes next."""

from __future__ import annotations

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.continuity import check_continuity
from kbroker.pipeline.spark_job.offsets import Offsets

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def check(position: Offsets, earliest: Offsets, latest: Offsets, fails: bool = True) -> None:
    check_continuity(position, earliest, latest, fails_on_data_loss=fails)


def test_a_source_that_grew_is_fine() -> None:
    check({A0: 5}, {A0: 5, A1: 0}, {A0: 9, A1: 3})


def test_what_retention_took_is_named_unless_it_may_be_lost() -> None:
    with pytest.raises(PipelineError, match="offsets 5 to 7 of a-0 were removed before they"):
        check({A0: 5}, {A0: 8}, {A0: 9})
    check({A0: 5}, {A0: 8}, {A0: 9}, fails=False)


def test_a_partition_that_was_added_and_trimmed_has_lost_its_first_records() -> None:
    with pytest.raises(PipelineError, match="offsets 0 to 1 of a-1 were removed"):
        check({A0: 5}, {A0: 0, A1: 2}, {A0: 9, A1: 3})


def test_a_log_that_is_shorter_than_it_was_is_refused_in_any_case() -> None:
    with pytest.raises(PipelineError, match="a-0 ends at offset 3, and the checkpoint is at 5"):
        check({A0: 5}, {A0: 0}, {A0: 3}, fails=False)


def test_partitions_that_have_gone_are_named() -> None:
    many = {TopicPartition("b", number): 1 for number in range(7)}

    with pytest.raises(PipelineError, match="b-0, b-1, b-2, b-3, b-4 and 2 more: gone"):
        check({A0: 5, **many}, {A0: 0}, {A0: 9})
