from __future__ import annotations

import pytest

from kbroker.client.consumer_groups import ConsumerGroup
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.clusters.cluster_check import OtherSides, SeenLog, compare_cluster
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets
from kbroker.pipeline.spark_job.offsets import OffsetRange

T0 = TopicPartition("t", 0)
Told = list[tuple[str, str, int | None]]


def cluster(
    start: int | None, end: int = 0, committed: int | None = None, group_id: str = "g"
) -> ClusterOffsets:
    group = ConsumerGroup(name=group_id, state="Empty", committed={T0: committed})
    return ClusterOffsets(
        bootstrap="c:9092",
        partitions={} if start is None else {T0: OffsetRange(start, end)},
        groups={group_id: group},
    )


def told(
    before: ClusterOffsets,
    after: ClusterOffsets | None = None,
    *,
    log: tuple[int, int] | None = None,
    archive: tuple[int, int] | None = None,
    high_watermark: int | None = None,
    topics: tuple[str, ...] = (),
) -> Told:
    logs = archives = None
    if log is not None:
        logs = {T0: SeenLog(path="d/t-0", range=OffsetRange(*log), high_watermark=high_watermark)}
    if archive is not None:
        archives = {T0: OffsetRange(*archive)}
    sides = OtherSides(logs=logs, archive=archives, topics=topics)
    return [
        (each.finding.code, each.finding.severity.name, each.finding.offset)
        for each in compare_cluster(before, after or before, sides)
    ]


def test_what_came_while_files_were_read_is_no_finding() -> None:
    assert told(cluster(0, 10), cluster(0, 15), log=(0, 12), archive=(0, 9)) == []


@pytest.mark.parametrize(
    ("high_watermark", "severity"), [(None, "INFO"), (10, "INFO"), (12, "ERROR")]
)
def test_records_beyond_the_cluster_are_an_error_where_they_were_committed(
    high_watermark: int | None, severity: str
) -> None:
    assert told(cluster(0, 10), log=(0, 12), high_watermark=high_watermark) == [
        ("cluster-behind-log", severity, 10)
    ]


def test_a_directory_may_be_behind_and_that_is_told() -> None:
    assert told(cluster(0, 10), log=(0, 8)) == [("log-behind-cluster", "WARNING", 8)]


@pytest.mark.parametrize(
    ("now", "archive", "expected"),
    [
        ((0, 10), (0, 12), [("cluster-behind-archive", "ERROR", 10)]),
        ((20, 30), (0, 12), [("archive-overtaken", "ERROR", 12)]),
        ((12, 30), (0, 12), []),
    ],
)
def test_an_archive_is_held_against_the_cluster(
    now: tuple[int, int], archive: tuple[int, int], expected: Told
) -> None:
    assert told(cluster(*now), archive=archive) == expected


def test_a_topic_of_one_side_alone_is_told() -> None:
    assert told(cluster(None), log=(0, 3)) == [("cluster-lacks", "WARNING", 0)]
    assert told(cluster(None), topics=("t",)) == [("topic-missing", "WARNING", None)]
    absent = compare_cluster(
        cluster(0, 5), cluster(0, 5), OtherSides(logs={}, archive=None, topics=())
    )
    assert [(each.finding.code, each.topic_partition) for each in absent] == [
        ("partition-absent", T0)
    ]


def test_a_group_beyond_the_end_is_told() -> None:
    assert told(cluster(0, 10, committed=10)) == []
    assert told(cluster(0, 10, committed=11)) == [("group-beyond-end", "WARNING", 11)]


def test_the_groups_of_jobs_count_steps_and_no_records() -> None:
    assert told(cluster(0, 0, committed=2, group_id="kbroker-rules-errors-1")) == []
