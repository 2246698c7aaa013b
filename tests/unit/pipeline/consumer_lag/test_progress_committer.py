"""Commits on a thread of their own: kept until they work, one warning, and nobody waits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.consumer_lag.group_commits import CommitOutcome
from kbroker.pipeline.consumer_lag.progress_committer import ProgressCommitter
from kbroker.pipeline.consumer_lag.query_progress import DueCommits, ProgressReport, SourceReport

A0 = TopicPartition("a", 0)
WAIT_S = 20.0


class Cluster:
    """Takes commits, unless it is away; may be held up."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.problem: str | None = None
        self.answers = True
        self.asked = 0
        self.raises = False
        self.is_closed = False
        self.gate = threading.Event()
        self.gate.set()

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> CommitOutcome:
        assert self.gate.wait(WAIT_S)
        self.asked += 1
        if self.raises:
            raise AttributeError("nobody expected this")
        if self.problem is not None:
            return CommitOutcome({}, self.problem, self.answers)
        self.taken.append((group, offsets[A0]))
        return CommitOutcome(offsets)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def committer(cluster: Cluster) -> Iterator[ProgressCommitter]:
    made = ProgressCommitter(cluster, DueCommits())
    yield made
    made.close(WAIT_S)


def end_at(offset: int, name: str = "q") -> ProgressReport:
    end = f'{{"a":{{"0":{offset}}}}}'
    return ProgressReport("id", name, (SourceReport("KafkaV2[Subscribe[a]]", end),))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.message for entry in caplog.records if entry.levelno == logging.WARNING]


def test_the_end_of_a_batch_is_committed(cluster: Cluster, committer: ProgressCommitter) -> None:
    committer.report(end_at(5))

    assert committer.flush(WAIT_S)
    assert cluster.taken == [("spark-q", 5)]


def test_who_reports_never_waits_and_only_the_last_end_is_committed(
    cluster: Cluster, committer: ProgressCommitter
) -> None:
    cluster.gate.clear()
    committer.report(end_at(1))
    for offset in range(2, 100):
        committer.report(end_at(offset))
    cluster.gate.set()

    assert committer.flush(WAIT_S)
    assert len(cluster.taken) <= 3
    assert cluster.taken[-1] == ("spark-q", 99)
    assert cluster.taken == sorted(cluster.taken)


def test_what_was_refused_is_tried_again_at_the_next_event(
    cluster: Cluster, committer: ProgressCommitter, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.problem = "the cluster is away"
    committer.report(end_at(5))
    assert not committer.flush(WAIT_S)
    committer.report(end_at(6))
    assert not committer.flush(WAIT_S)

    cluster.problem = None
    committer.wake()

    assert committer.flush(WAIT_S)
    assert cluster.taken == [("spark-q", 6)]
    (warning,) = warnings(caplog)
    assert warning.startswith("the cluster is away; queries continue")


def test_a_second_time_of_trouble_is_warned_of_again(
    cluster: Cluster, committer: ProgressCommitter, caplog: pytest.LogCaptureFixture
) -> None:
    for offset, problem in enumerate(["away", None, "away again"]):
        cluster.problem = problem
        committer.report(end_at(offset))
        committer.flush(WAIT_S)

    assert [text.partition(";")[0] for text in warnings(caplog)] == ["away", "away again"]


def test_one_group_in_trouble_does_not_hold_up_another(
    cluster: Cluster, committer: ProgressCommitter
) -> None:
    cluster.problem = "away"
    committer.report(end_at(1, "first"))
    committer.flush(WAIT_S)
    cluster.problem = None
    committer.report(end_at(2, "second"))

    assert committer.flush(WAIT_S)
    assert sorted(cluster.taken) == [("spark-first", 1), ("spark-second", 2)]


def test_a_cluster_that_is_away_is_asked_for_one_group_and_warned_of_once(
    cluster: Cluster, committer: ProgressCommitter, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.problem, cluster.answers = "away", False
    for name in ("a", "b", "c"):
        committer.report(end_at(1, name))
        committer.flush(WAIT_S)
    asked_while_away = cluster.asked
    cluster.problem, cluster.answers = None, True
    committer.wake()

    assert committer.flush(WAIT_S)
    assert len(cluster.taken) == 3
    assert (asked_while_away, warnings(caplog)) == (3, warnings(caplog)[:1])


def test_an_unexpected_failure_is_a_warning_and_no_end(
    cluster: Cluster, committer: ProgressCommitter, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.raises = True
    committer.report(end_at(1))
    committer.flush(WAIT_S)
    cluster.raises = False
    committer.report(end_at(2))

    assert committer.flush(WAIT_S)
    assert cluster.taken == [("spark-q", 2)]
    assert "AttributeError" in warnings(caplog)[0]


def test_offsets_that_nobody_knows_are_a_warning(
    committer: ProgressCommitter, caplog: pytest.LogCaptureFixture
) -> None:
    committer.report(ProgressReport("id", "q", (SourceReport("KafkaV2[x]", "[1]"),)))

    assert committer.flush(WAIT_S)
    assert "not a JSON object" in warnings(caplog)[0]


def test_closing_commits_what_is_due_and_lets_go(cluster: Cluster) -> None:
    committer = ProgressCommitter(cluster, DueCommits())
    cluster.gate.clear()
    committer.report(end_at(7))
    cluster.gate.set()

    committer.close(WAIT_S)

    assert cluster.taken == [("spark-q", 7)]
    assert cluster.is_closed
