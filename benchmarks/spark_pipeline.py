"""The pipeline's own work on the records that `spark` wrote: its log source beside Spark's Kafka
source, the audit of headers, the archive from both sources.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.loads import Figures, Load
from benchmarks.processes import RunningBroker
from benchmarks.spark import (
    READ_OPTIONS,
    RECORDS,
    TOPIC,
    read_topic,
    timed,
    write_small_records,
)
from benchmarks.spark_session import CORES, session
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.source import Source

_SMALL_TOPIC = "spark-small"
_SMALL_RECORDS = 4_000_000  # of 100 bytes: fewer would measure how long a query takes to begin
_SETTLE_S = 30  # until a broker has noted how far its logs may be read
_warmed: set[tuple[str, str | None]] = set()  # the queries of log files that Spark has done once


def log_read(columns: str | None = None) -> Load:
    """Records from the broker's files into `noop`, all columns or some, right after all of them
    from the broker: the Kafka source reads whole records whatever is asked of it.
    """

    def load(broker: RunningBroker) -> Figures:
        return _both_sources(broker, TOPIC, RECORDS, columns)

    return load


def small_log_read() -> Load:
    """As `log_read`, all columns of records that have 100 bytes instead of 1,000."""

    def load(broker: RunningBroker) -> Figures:
        write_small_records(broker, _SMALL_TOPIC, _SMALL_RECORDS)
        return _both_sources(broker, _SMALL_TOPIC, _SMALL_RECORDS)

    return load


def header_audit() -> Load:
    """`kbroker pipeline audit --data`, without the start of Spark: every header and CRC."""

    def load(broker: RunningBroker) -> Figures:
        from kbroker.pipeline.auditing.audit_job import Means, run_plan
        from kbroker.pipeline.auditing.audit_plan import plan_audit
        from kbroker.pipeline.auditing.audit_report import AuditRequest
        from kbroker.pipeline.spark_job.spread import OverSpark

        request = AuditRequest(
            directories=(str(broker.data),), topics=(TOPIC,), window_ms=60_000,
            now_ms=time.time_ns() // 1_000_000,
        )  # fmt: skip
        begun = time.perf_counter()
        report = run_plan(plan_audit(request), Means(spread=OverSpark(session())))
        elapsed = time.perf_counter() - begun
        megabytes = report.totals.size_bytes / 1e6
        return {
            "mb_per_s_of_a_core": megabytes / report.cpu_s,
            "mb_per_s": megabytes / elapsed,
            "findings": float(len(report.findings)),
        }

    return load


def archive(source_of: Callable[[RunningBroker], Source]) -> Load:
    """`kbroker pipeline archive --once`, without the start of Spark."""

    def load(broker: RunningBroker) -> Figures:
        with tempfile.TemporaryDirectory(prefix="kbroker-bench-archive-") as home:
            report = _archived(source_of(broker), Path(home))
        if report.rows != RECORDS:
            raise RuntimeError(f"{report.rows} records were archived")
        return {"records_per_s": report.rows / report.seconds}

    return load


def kafka_source(broker: RunningBroker) -> Source:
    """The running broker."""
    return KafkaSource(bootstrap=broker.bootstrap, topics=(TOPIC,))


def log_source(broker: RunningBroker) -> Source:
    """Its files."""
    return LogDirectorySource([str(broker.data)], [TOPIC])


ROWS: list[tuple[str, Load]] = [
    ("spark: log directory read, 1 KB", log_read()),
    ("spark: log directory read, 100 B", small_log_read()),
    ("spark: log directory read, keys and offsets", log_read("key,offset")),
    ("spark: log directory read, offsets alone", log_read("offset")),
    (f"pipeline: audit of headers, {CORES} cores", header_audit()),
    (f"pipeline: archive from kafka, {CORES} cores", archive(kafka_source)),
    (f"pipeline: archive from its files, {CORES} cores", archive(log_source)),
]


def _both_sources(
    broker: RunningBroker, topic: str, records: int, columns: str | None = None
) -> Figures:
    _await_high_watermarks(broker, topic, records)
    query = (topic, columns)
    if query not in _warmed:  # as for Kafka's source: none of them pays for Java's compiler
        _warmed.add(query)
        _read_logs(broker, topic, columns)
    from_kafka = timed(broker, lambda: read_topic(broker, topic, READ_OPTIONS["tuned"]), records)
    rate = timed(broker, lambda: _read_logs(broker, topic, columns), records)
    return {
        "records_per_s": rate["records_per_s"],
        "times_kafka_source": rate["records_per_s"] / from_kafka["records_per_s"],
    }


def _read_logs(broker: RunningBroker, topic: str, columns: str | None) -> None:
    reader = session().read.format("kbroker-log").option("topics", topic)
    if columns is not None:
        reader = reader.option("columns", columns)
    reader.load(str(broker.data)).write.format("noop").mode("overwrite").save()


def _archived(source: Source, home: Path) -> Any:
    from kbroker.pipeline.jobs.archive import archive_job
    from kbroker.pipeline.spark_job.checkpoint import Checkpoint
    from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob

    continued, work = archive_job(source, str(home / "archive"))
    settings = JobSettings(kind="archive", target=str(home / "archive"))
    job = StreamJob("archive", continued, Checkpoint(home / "checkpoint"), settings, work.work)
    try:
        return job.run(session())
    finally:
        work.close()


def _await_high_watermarks(broker: RunningBroker, topic: str, records: int) -> None:
    deadline = time.monotonic() + _SETTLE_S
    source = LogDirectorySource([str(broker.data)], [topic])
    while sum(source.latest().values()) < records:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the high watermarks in {broker.data} stay below what was written")
        time.sleep(0.2)
