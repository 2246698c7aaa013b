"""An audit whose tasks are spread over Spark finds what one in this process finds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from compat_tests.clients.every_client import create_topic
from kbroker.inspection.finding import Severity
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.audit_job import Means, run_plan
from kbroker.pipeline.auditing.audit_plan import plan_audit
from kbroker.pipeline.auditing.audit_report import AuditRequest, window_rows
from kbroker.pipeline.auditing.clusters.cluster_counts import check_counts
from kbroker.pipeline.auditing.window_counts import HOUR_MS
from kbroker.pipeline.sources.kafka_source import READ_UNCOMMITTED, KafkaSource
from kbroker.pipeline.spark_job.spread import InProcess, OverSpark
from tests.fakes.archives.archived_directory import archive_directory
from tests.golden import golden_logs

RECORDS = 300


def test_spark_and_this_process_find_the_same(spark: Any, tmp_path: Path) -> None:
    sound = golden_logs.unpack("3.9.2-unclean", tmp_path / "sound")
    archive_directory(str(sound), str(tmp_path / "archive"))
    damaged = golden_logs.unpack("3.9.2-damaged", tmp_path / "damaged")
    request = AuditRequest(
        directories=(str(damaged),),
        archive=str(tmp_path / "archive"),
        is_deep=True,
        window_ms=HOUR_MS,
        now_ms=time.time_ns() // 1_000_000,
    )

    here = run_plan(plan_audit(request), Means(spread=InProcess()))
    there = run_plan(plan_audit(request), Means(spread=OverSpark(spark)))

    assert there.count(Severity.ERROR) > 3
    assert there.findings == here.findings
    assert window_rows(there) == window_rows(here)
    assert there.compared_records == here.compared_records > 0


def test_what_a_cluster_serves_is_counted_and_held_against_its_directory(
    spark: Any, bootstrap: str, topic: str, broker_data: Path
) -> None:
    create_topic(bootstrap, topic, 2)
    producer = Producer({"bootstrap.servers": bootstrap})
    at_ms = time.time_ns() // 1_000_000 - 3 * HOUR_MS
    for number in range(RECORDS):
        # Now and then somebody takes nanoseconds for milliseconds.
        time_ms = at_ms + number * HOUR_MS // 100 if number % 100 else at_ms * 1_000_000
        producer.produce(topic, b"v%d" % number, partition=number % 2, timestamp=time_ms)
    assert producer.flush(30) == 0
    request = AuditRequest(
        directories=(str(broker_data),),
        bootstrap=bootstrap,
        topics=(topic,),
        is_deep=True,
        window_ms=HOUR_MS,
        now_ms=time.time_ns() // 1_000_000,
    )
    source = KafkaSource(bootstrap=bootstrap, topics=(topic,), isolation_level=READ_UNCOMMITTED)

    report = run_plan(plan_audit(request), Means(spread=InProcess(), spark=spark, source=source))

    sides = {each.topic_partition: each for each in report.partitions}
    assert sides.keys() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    worse = {each.finding.code for each in report.findings if each.finding.severity > Severity.INFO}
    assert worse == {"timestamp-future"}
    for each in report.partitions:
        assert each.cluster_windows is not None
        assert each.logs[0].range == each.cluster
        assert sum(count.records for count in each.cluster_windows.values()) == RECORDS // 2
    first = report.partitions[0]
    windows = first.cluster_windows
    assert windows is not None
    windows[min(windows)].records -= 1
    (finding,) = check_counts(first)
    assert (finding.finding.code, finding.topic_partition) == (
        "cluster-count",
        TopicPartition(topic, 0),
    )
