"""What is committed for a streaming query."""

from __future__ import annotations

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.query_progress import (
    DueCommits,
    ProgressReport,
    SourceReport,
    end_offsets,
    group_of,
)

KAFKA = "KafkaV2[Subscribe[a]]"
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def report(*ends: str | None, name: str | None = "q", description: str = KAFKA) -> ProgressReport:
    return ProgressReport("id", name, tuple(SourceReport(description, end) for end in ends))


def test_a_query_without_name_goes_by_its_id() -> None:
    assert (group_of("q", "id"), group_of(None, "id")) == ("spark-q", "spark-id")


def test_all_kafka_sources_of_a_query_count() -> None:
    ends = end_offsets(report('{"a":{"0":5,"1":6}}', '{"b":{"0":7}}'))

    assert ends == {A0: 5, A1: 6, B0: 7}


def test_a_partition_that_two_sources_read_has_the_lower_offset() -> None:
    assert end_offsets(report('{"a":{"0":5}}', '{"a":{"0":3}}', '{"a":{"0":4}}')) == {A0: 3}


def test_other_sources_do_not_count() -> None:
    assert end_offsets(report('{"a":{"0":5}}', description="FileStreamSource[/a]")) == {}


def test_a_source_without_offsets_does_not_count() -> None:
    assert end_offsets(report(None)) == {}


def test_the_last_report_is_due() -> None:
    due = DueCommits()

    due.report(report('{"a":{"0":5,"1":6}}'))
    due.report(report('{"a":{"0":9}}'))

    assert due.due() == {"spark-q": {A0: 9, A1: 6}}


def test_a_query_that_went_back_takes_its_group_along() -> None:
    due = DueCommits()

    due.report(report('{"a":{"0":9}}'))
    due.report(report('{"a":{"0":2}}'))

    assert due.due() == {"spark-q": {A0: 2}}


def test_what_is_settled_is_due_no_more_but_what_came_meanwhile_is() -> None:
    due = DueCommits()
    due.report(report('{"a":{"0":5,"1":6}}'))
    tried = due.due()["spark-q"]

    due.report(report('{"a":{"0":8,"1":6}}'))
    due.settled("spark-q", tried)

    assert due.due() == {"spark-q": {A0: 8}}


def test_a_group_with_nothing_due_is_gone() -> None:
    due = DueCommits()
    due.report(report('{"a":{"0":5}}'))

    due.settled("spark-q", {A0: 5})

    assert due.due() == {}


def test_only_queries_that_are_named_count() -> None:
    due = DueCommits(["mine"])

    due.report(report('{"a":{"0":5}}', name="mine"))
    due.report(report('{"a":{"0":6}}', name="other"))
    due.report(report('{"a":{"0":7}}', name=None))

    assert due.due() == {"spark-mine": {A0: 5}}


def test_offsets_that_nobody_knows_are_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON object"):
        DueCommits().report(report("[1]"))
