"""The archive job: what was written to topics or lies in directories is in the archive, once."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaAdminClient
from kafka import TopicPartition as ClientPartition

from compat_tests.clients.every_client import (
    begin_transaction,
    create_topic,
    transactional_producer,
)
from compat_tests.conftest import BrokerProcess
from kbroker.inspection.finding import Findings, Severity
from kbroker.log.disk.file_system import RealFileSystem
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.archive_reading import read_archive, read_manifest
from kbroker.pipeline.archiving.manifests.archive_state import missing_by_reason
from kbroker.pipeline.archiving.manifests.file_check import check_file
from kbroker.pipeline.archiving.reader import ArchiveSelection, read_archive_frame
from kbroker.pipeline.archiving.upkeep.merge_and_expiry import merge_small_files
from kbroker.pipeline.auditing.archives.archive_history import read_history
from kbroker.pipeline.auditing.audit_job import Means, run_plan
from kbroker.pipeline.auditing.audit_plan import plan_audit
from kbroker.pipeline.auditing.audit_report import AuditRequest
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.jobs.archive import archive_job
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.sources.log_directory_source import LogDirectorySource
from kbroker.pipeline.spark_job.batch import Batch, BatchResult, JobReport, Work
from kbroker.pipeline.spark_job.checkpoint import Checkpoint
from kbroker.pipeline.spark_job.spread import InProcess
from kbroker.pipeline.spark_job.stream_job import JobSettings, StreamJob
from kbroker.record.record_batch import Record, build
from tests.fakes.logs.odd_records import odd_batches, odd_records
from tests.fakes.logs.spoiled_topic import broker_with
from tests.fakes.logs.unreadable_batches import unreadable_batch
from tests.golden import golden_logs

BASE_MS = 1_795_266_000_000  # 2026-11-21 13:00 UTC
HOUR_MS = 3_600_000
Row = tuple[Any, ...]


class CutError(Exception):
    """A run that ended at a bad moment."""


def run_archive(
    spark: Any,
    source: Any,
    folder: Path,
    *,
    batch_records: int = 500_000,
    checkpoint: str = "checkpoint",
    around: Callable[[Work], Work] = lambda work: work,
    **options: Any,
) -> JobReport:
    continued, work = archive_job(source, str(folder / "archive"), **options)
    settings = JobSettings(
        kind="archive", target=str(folder / "archive"), batch_records=batch_records
    )
    job = StreamJob(
        "archive", continued, Checkpoint(folder / checkpoint), settings, around(work.work)
    )
    continued.check()
    try:
        return job.run(spark)
    finally:
        work.close()


def row_of(row: Any) -> Row:
    """A row of the archive; the time in ms, headers as pairs."""
    headers = None if row["headers"] is None else [(h["key"], h["value"]) for h in row["headers"]]
    key, value = (None if each is None else bytes(each) for each in (row["key"], row["value"]))
    return (
        row["topic"], row["partition"], row["offset"], key, value, row["ms"], row["timestampType"],
        None if headers is None else [(k, None if v is None else bytes(v)) for k, v in headers],
    )  # fmt: skip


def archived(spark: Any, folder: Path, selection: ArchiveSelection | None = None) -> list[Row]:
    frame = read_archive_frame(spark, str(folder / "archive"), selection)
    # Python cannot tell a time of the first day of the year 1: it looks a day further back.
    frame = frame.selectExpr("*", "unix_millis(timestamp) AS ms").drop("timestamp")
    return sorted(row_of(row) for row in frame.collect())


def check_archive(folder: Path) -> None:
    """Every file is as its manifest says, and no other is there."""
    state = read_archive(str(folder / "archive"))
    assert [check_file(state.path, entry) for entry in state.files.values()] == [None] * len(
        state.files
    )
    there = {str(path.relative_to(state.path)) for path in Path(state.path).rglob("*.parquet")}
    assert there == set(state.files) | set(state.waiting)


class Topic:
    """Writes records, and knows what it wrote, as rows of the archive."""

    def __init__(self, bootstrap: str, name: str, partitions: int = 2) -> None:
        create_topic(bootstrap, name, partitions)
        self.name = name
        self.source = KafkaSource(bootstrap=bootstrap, topics=(name,))
        self.rows: list[Row] = []
        self._bootstrap = bootstrap
        self._ends = dict.fromkeys(range(partitions), 0)

    def write(self, *records: dict[str, Any], codec: str = "none") -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "compression.type": codec})
        for record in records:
            row = {
                "key": None,
                "value": None,
                "headers": None,
                "partition": 0,
                "ms": BASE_MS,
            } | record
            producer.produce(
                self.name, value=row["value"], key=row["key"], partition=row["partition"],
                timestamp=row["ms"], headers=row["headers"],
            )  # fmt: skip
            offset = self._ends[row["partition"]]
            self._ends[row["partition"]] += 1
            self.rows.append(
                (
                    self.name,
                    row["partition"],
                    offset,
                    row["key"],
                    row["value"],
                    row["ms"],
                    0,
                    row["headers"],
                )
            )
        assert producer.flush(30) == 0


def set_config(bootstrap: str, topic: str, operation: AlterConfigOpType, value: str = "") -> None:
    """Set or delete the topic's own retention.ms."""
    entry = ConfigEntry("retention.ms", value, incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    client = AdminClient({"bootstrap.servers": bootstrap})
    for done in client.incremental_alter_configs([resource]).values():
        done.result(30)


def many(count: int, **fields: Any) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"key": b"k", "value": b"%d" % number, "partition": number % 2} | fields


def test_records_of_every_kind_come_back_as_they_were_written(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    written = Topic(bootstrap, topic)
    written.write(
        {"key": b"a", "value": b"1", "headers": [("h", b"1"), ("h", b"1"), ("h", None), ("", b"")]},
        {"key": b"tombstone"},
        {"value": b""},
        {"key": b"", "value": bytes(range(256)) * 40, "partition": 1},
        {"key": b"late", "value": b"2", "ms": BASE_MS - 30 * HOUR_MS},
        {"key": b"no date", "ms": -62_135_596_800_000},  # as .NET has it
        {"value": "\u00fcber \u2603".encode(), "headers": [("\u00fc", "\u2603".encode())]},
    )
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        written.write(*many(50), codec=codec)

    first = run_archive(spark, written.source, tmp_path, batch_records=100)
    written.write(*many(10, ms=BASE_MS + HOUR_MS))
    second = run_archive(spark, written.source, tmp_path)

    assert archived(spark, tmp_path) == sorted(written.rows)
    assert (first.rows, second.rows) == (207, 10)
    assert first.batches > 1
    check_archive(tmp_path)
    state = read_archive(str(tmp_path / "archive"))
    assert {entry.hour for entry in state.files.values()} == {
        "2026-11-20T07", "2026-11-21T13", "2026-11-21T14", "no-time",
    }  # fmt: skip
    assert state.holes == {}


@pytest.mark.parametrize("cut", ["before the manifest", "after the manifest"])
def test_a_run_that_was_cut_goes_on_without_loss_and_without_doubles(
    cut: str, spark: Any, bootstrap: str, topic: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    written = Topic(bootstrap, topic)
    written.write(*many(100))

    def dies(work: Work) -> Work:
        def run(batch: Batch) -> BatchResult:
            if batch.number == 1 and cut == "before the manifest":
                monkeypatch.setattr(
                    "kbroker.pipeline.archiving.manifests.archive_writer.ArchiveWriter._write_manifest",
                    die,
                )
            result = work(batch)
            if batch.number == 1:
                raise CutError
            return result

        return run

    with pytest.raises(CutError):
        run_archive(spark, written.source, tmp_path, batch_records=40, around=dies)
    monkeypatch.undo()
    written.write(*many(6))
    run_archive(spark, written.source, tmp_path, batch_records=40)

    assert archived(spark, tmp_path) == sorted(written.rows)
    check_archive(tmp_path)


def die(*_: object) -> None:
    raise CutError


def test_a_new_checkpoint_goes_on_where_the_archive_ends(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    written = Topic(bootstrap, topic)
    written.write(*many(20))
    run_archive(spark, written.source, tmp_path)
    written.write(*many(8))

    report = run_archive(spark, written.source, tmp_path, checkpoint="another")

    assert report.rows == 8
    assert archived(spark, tmp_path) == sorted(written.rows)


def test_what_retention_took_is_refused_and_with_allow_loss_noted(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    written = Topic(bootstrap, topic, partitions=1)
    written.write(*many(10, partition=0))
    run_archive(spark, written.source, tmp_path)
    written.write(*many(10, partition=0))
    with admin(bootstrap) as client:
        client.delete_records({ClientPartition(topic, 0): 15})

    sentence = f"offsets 10 to 14 of {topic}-0 were deleted at the source before they were archived"
    with pytest.raises(PipelineError, match=sentence):
        run_archive(spark, written.source, tmp_path)
    run_archive(spark, written.source, tmp_path, checkpoint="another", allows_loss=True)

    partition = TopicPartition(topic, 0)
    state = read_archive(str(tmp_path / "archive"))
    assert missing_by_reason(state.holes[partition]) == {"retention": 5}
    assert [row[2] for row in archived(spark, tmp_path)] == [*range(10), *range(15, 20)]


def test_the_archive_keeps_own_settings_and_partitions_of_topics(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    written = Topic(bootstrap, topic, partitions=3)
    archive = str(tmp_path / "archive")

    written.write(*many(20))
    run_archive(spark, written.source, tmp_path)
    with_defaults = read_archive(archive)
    set_config(bootstrap, topic, AlterConfigOpType.SET, "600000000")
    written.write(*many(40))
    batches = run_archive(spark, written.source, tmp_path, batch_records=15).batches
    changed = read_archive(archive)
    set_config(bootstrap, topic, AlterConfigOpType.DELETE)
    written.write(*many(2))
    run_archive(spark, written.source, tmp_path)

    assert with_defaults.topic_settings == {topic: {}}
    assert changed.topic_settings == {topic: {"retention.ms": "600000000"}}
    assert batches > 1
    state = read_archive(archive)
    said = [read_manifest(archive, number, RealFileSystem()) for number in range(state.number + 1)]
    assert [each.topic_settings.get(topic) for each in said] == [
        {}, {"retention.ms": "600000000"}, *[None] * (batches - 1), {},
    ]  # fmt: skip
    assert [each.partition_counts for each in said] == [{topic: 3}, *[{}] * (batches + 1)]
    assert state.topic_settings == {topic: {}}
    findings = Findings()
    assert read_history(archive, findings) == state
    assert findings.all() == []


@contextmanager
def admin(bootstrap: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        yield client
    finally:
        client.close()


def test_parsed_values_are_a_column_and_the_rest_is_kept_with_its_reason(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    written = Topic(bootstrap, topic, partitions=1)
    values = [
        b'{"id": 1, "name": "a"}',
        b"no json",
        None,
        b"",
        b'{"id": "x"}',
        b"[1]",
        b'{"id": 2}',
    ]
    written.write(*({"value": value} for value in values))

    run_archive(spark, written.source, tmp_path, schema_texts={topic: "id BIGINT, name STRING"})

    only = ArchiveSelection(topics=(topic,))
    frame = read_archive_frame(spark, str(tmp_path / "archive"), only)
    parsed = {row["offset"]: row["json"] for row in frame.collect()}
    rejected = read_archive_frame(spark, str(tmp_path / "archive"), only, rejected=True)
    reasons = {row["offset"]: (bytes(row["value"]), row["reason"]) for row in rejected.collect()}
    assert {at: None if row is None else tuple(row) for at, row in parsed.items()} == {
        0: (1, "a"), 1: None, 2: None, 3: None, 4: None, 5: None, 6: (2, None),
    }  # fmt: skip
    assert reasons == {at: (values[at], "is not JSON that fits the schema") for at in (1, 4, 5)}
    assert archived(spark, tmp_path) == sorted(written.rows)
    check_archive(tmp_path)


def test_a_log_directory_is_archived_as_a_java_client_read_it_and_its_holes_are_explained(
    spark: Any, tmp_path: Path
) -> None:
    name = golden_logs.CLEAN[0]
    data = golden_logs.unpack(name, tmp_path / "data")
    expected = [
        row for row in golden_logs.lines(name, "expected")
        if row["kind"] == "record" and row["isolation"] == "read_committed"
    ]  # fmt: skip
    topics = [
        "append-time", "codec-lz4", "codec-snappy", "compacted", "compacted-txn", "odd", "plain",
        "records-deleted", "txn",
    ]  # fmt: skip

    run_archive(spark, LogDirectorySource([str(data)], topics), tmp_path, batch_records=400)

    assert [as_golden(row) for row in archived(spark, tmp_path)] == sorted(
        (golden_row(row) for row in expected if row["topic"] in topics), key=lambda row: row[:3]
    )
    state = read_archive(str(tmp_path / "archive"))
    reasons = {
        partition.topic: set(missing_by_reason(holes)) for partition, holes in state.holes.items()
    }
    assert reasons["txn"] == {"transaction marker", "aborted transaction"}
    assert reasons["compacted"] == {"compaction"}
    assert "unexplained" not in set().union(*reasons.values())
    check_archive(tmp_path)


def text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def as_golden(row: Row) -> Row:
    headers = [[name, text(value)] for name, value in row[7] or ()]
    return (*row[:3], text(row[3]), text(row[4]), row[5], headers)


def golden_row(row: dict[str, Any]) -> Row:
    return (
        row["topic"], row["partition"], row["offset"], row["key"], row["value"], row["timestamp"],
        row["headers"],
    )  # fmt: skip


def test_what_cannot_be_read_is_refused_and_with_allow_loss_a_hole_with_its_reason(
    spark: Any, tmp_path: Path
) -> None:
    def good(*offsets: int) -> bytes:
        records = [Record(offset, BASE_MS, None, b"v") for offset in offsets]
        return build(records, base_offset=offsets[0])

    data, batches = tmp_path / "data", [good(0, 1), unreadable_batch(2, 3), good(5)]
    with broker_with(data, {"t-0": batches}) as bootstrap:
        topics = KafkaSource(bootstrap=bootstrap, topics=("t",))
        with pytest.raises(PipelineError, match="t-0: the batch of offsets 2 to 4 cannot be read"):
            run_archive(spark, topics, tmp_path / "k")
        reports = [run_archive(spark, topics, tmp_path / "k", allows_loss=True)]

    source = LogDirectorySource([str(data)], ["t"])
    with pytest.raises(PipelineError, match=r"t-0/0+\.log: the batch at position \d+, offset 2: "):
        run_archive(spark, source, tmp_path)
    reports.append(run_archive(spark, source, tmp_path, allows_loss=True))

    for folder, report in zip((tmp_path / "k", tmp_path), reports, strict=True):
        assert [row[2] for row in archived(spark, folder)] == [0, 1, 5]
        assert report.notes == ("t-0: 3 of the offsets 2 to 4 are missing: unreadable",)


def test_merged_files_and_chosen_ones_hold_the_same_rows(
    spark: Any, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    written = Topic(bootstrap, topic)
    for hour in range(3):
        written.write(*many(20, ms=BASE_MS + hour * HOUR_MS))
        run_archive(spark, written.source, tmp_path, batch_records=15)
    before = archived(spark, tmp_path)
    files_before = len(read_archive(str(tmp_path / "archive")).files)

    report = merge_small_files(str(tmp_path / "archive"), (), 1, 1 << 20)

    assert archived(spark, tmp_path) == before == sorted(written.rows)
    assert (report.files_before, report.files_after) == (files_before, 6)
    chosen = ArchiveSelection(
        topics=(topic,), partitions=(1,), start_offset=5, end_offset=25,
        start_ms=BASE_MS + HOUR_MS, end_ms=BASE_MS + 2 * HOUR_MS,
    )  # fmt: skip
    assert archived(spark, tmp_path, chosen) == [
        row for row in sorted(written.rows) if row[1] == 1 and 10 <= row[2] < 20
    ]
    check_archive(tmp_path)


def transactions_of_three(bootstrap: str, topic: str) -> Producer:
    """Values of a producer that commits and of one that aborts, in turns, one beside them, and then
    those of a third, whose transaction is open; that producer.
    """
    create_topic(bootstrap, topic, 1)
    commits, aborts, third = (transactional_producer(bootstrap, f"{topic}-{n}") for n in range(3))
    begin_transaction(commits, topic, range(3))
    begin_transaction(aborts, topic, range(10, 13))
    commits.produce(topic, b"3")
    aborts.abort_transaction(30)
    commits.commit_transaction(30)
    beside = Producer({"bootstrap.servers": bootstrap})
    beside.produce(topic, b"50")
    assert beside.flush(30) == 0
    begin_transaction(third, topic, [60, 61])
    return third


@pytest.mark.parametrize("kind", ["topics", "files"])
def test_an_archive_has_what_transactions_of_kbroker_have_committed(
    kind: str, spark: Any, kafka_connector: str, topic: str, tmp_path: Path
) -> None:
    data = tmp_path / "broker" / "data"
    broker = BrokerProcess(data)
    broker.start()
    producer = transactions_of_three(broker.bootstrap, topic)

    def values() -> list[bytes]:
        """Archive what there is, and return all values that are in the archive then."""
        if kind == "topics":
            source: Any = KafkaSource(bootstrap=broker.bootstrap, topics=(topic,))
            run_archive(spark, source, tmp_path)
        else:
            broker.stop()
            run_archive(spark, LogDirectorySource([str(data)], [topic]), tmp_path)
            broker.start()
        return [row[4] for row in archived(spark, tmp_path)]

    committed = [b"0", b"1", b"2", b"3", b"50"]
    assert values() == committed
    producer.commit_transaction(60)
    assert values() == [*committed, b"60", b"61"]
    broker.stop()

    check_archive(tmp_path)
    (holes,) = read_archive(str(tmp_path / "archive")).holes.values()
    reasons = missing_by_reason(holes)
    assert sum(reasons.values()) == 6  # three values and three markers
    assert "unexplained" not in reasons
    if kind == "files":
        assert reasons == {"aborted transaction": 3, "transaction marker": 3}


@pytest.mark.parametrize(("kind", "parsed"), [("topics", True), ("files", True), ("files", False)])
def test_times_and_names_that_spark_has_no_room_for_are_archived_as_they_are(
    kind: str, parsed: bool, spark: Any, kafka_connector: str, tmp_path: Path
) -> None:
    schemas: dict[str | None, str] = {"t": "id BIGINT"} if parsed else {}
    data = tmp_path / "data"
    with broker_with(data, {"t-0": odd_batches()}) as bootstrap:
        if kind == "topics":
            source = KafkaSource(bootstrap=bootstrap, topics=("t",))
            run_archive(spark, source, tmp_path, batch_records=5, schema_texts=schemas)
    if kind == "files":
        files = LogDirectorySource([str(data)], ["t"])
        run_archive(spark, files, tmp_path, batch_records=5, schema_texts=schemas)

    request = AuditRequest(
        directories=(str(data),),
        archive=str(tmp_path / "archive"),
        is_deep=True,
        window_ms=HOUR_MS,
        now_ms=BASE_MS,
    )
    report = run_plan(plan_audit(request), Means(spread=InProcess()))
    assert report.compared_records == len(odd_records())
    assert report.count(Severity.ERROR) == 0
    check_archive(tmp_path)
    frame = read_archive_frame(
        spark, str(tmp_path / "archive"), ArchiveSelection(start_ms=BASE_MS + 1)
    )
    assert {row["offset"] for row in frame.select("offset").collect()} == {1, 2, 3, 4, 5, 8}
