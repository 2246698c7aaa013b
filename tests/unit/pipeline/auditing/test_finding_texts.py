"""What an audit says, word by word: a finding of every code of its table, held against
`tests/golden/audit/findings.jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbroker.client.consumer_groups import ConsumerGroup
from kbroker.inspection.finding import Finding, Findings
from kbroker.inspection.log_walk import CheckTotals
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests import archive_reading, archive_state
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.manifests.file_check import file_checksum
from kbroker.pipeline.archiving.manifests.manifest import (
    ABORTED,
    COMPACTION,
    UNEXPLAINED,
    FileEntry,
    HoleEntry,
    decode_manifest,
    encode_manifest,
    seal,
)
from kbroker.pipeline.auditing.archives.archive_coverage import check_coverage
from kbroker.pipeline.auditing.archives.archive_files import FileResult, FileTask, check_parquet
from kbroker.pipeline.auditing.archives.archive_history import foreign_files, read_history
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets, as_runs
from kbroker.pipeline.auditing.audit_finding import AuditFinding
from kbroker.pipeline.auditing.audit_report import AuditRequest, LogSide, PartitionSides
from kbroker.pipeline.auditing.clusters.cluster_check import OtherSides, SeenLog, compare_cluster
from kbroker.pipeline.auditing.clusters.cluster_counts import check_counts
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets
from kbroker.pipeline.auditing.comparison.contents_compared import ContentsTask, compare_contents
from kbroker.pipeline.auditing.comparison.offsets_compared import (
    CONTROL,
    ComparedLog,
    LogBatches,
    compare_offsets,
)
from kbroker.pipeline.auditing.logs.log_side import other_topics, plan_logs, run_logs
from kbroker.pipeline.auditing.window_counts import HOUR_MS, WindowCount
from kbroker.pipeline.finding_codes import AuditCode
from kbroker.pipeline.spark_job.offsets import OffsetRange
from kbroker.pipeline.spark_job.spread import InProcess
from tests.fakes.archives.archived_directory import archive_directory
from tests.golden import golden_logs

GOLDEN = Path(__file__).parents[3] / "golden" / "audit" / "findings.jsonl"
T0 = TopicPartition("t", 0)
FOREIGN_WORDS = {  # begin so, those of Arrow and of the parser
    "archive-file-unreadable": ":", "manifest-damaged": " (", "snapshot-damaged": " (",
    "archive-mark": " (",
}  # fmt: skip
OTHER_ID = "6f1c1f1e-0000-4000-8000-000000000000"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return golden_logs.unpack(golden_logs.CLEAN[0], tmp_path / "data")


@pytest.fixture
def archive(data: Path, tmp_path: Path) -> Path:
    archive_directory(str(data), str(tmp_path / "archive"), batches=3)
    return tmp_path / "archive"


def cluster(ranges: dict[TopicPartition, OffsetRange], committed: int) -> ClusterOffsets:
    group = ConsumerGroup(name="g", state="Empty", committed={T0: committed})
    return ClusterOffsets(bootstrap="c:9092", partitions=ranges, groups={"g": group})


def said_of_a_cluster() -> Iterator[AuditFinding]:
    def asked(
        end: int,
        *,
        log: tuple[int, int, int | None] | None = None,
        archived: tuple[int, int] | None = None,
        start: int = 0,
        topics: tuple[str, ...] = (),
        other: TopicPartition = T0,
    ) -> list[AuditFinding]:
        found = cluster({T0: OffsetRange(start, end)}, committed=8)
        seen = log and SeenLog(path="d/t-0", range=OffsetRange(*log[:2]), high_watermark=log[2])
        sides = OtherSides(
            logs={other: seen} if seen else None,
            archive={other: OffsetRange(*archived)} if archived else None,
            topics=topics,
        )
        return compare_cluster(found, found, sides)

    elsewhere = TopicPartition("u", 1)
    yield from asked(10, log=(0, 9, None))
    yield from asked(10, log=(0, 12, 10))
    yield from asked(10, log=(0, 12, 11))
    yield from asked(10, archived=(0, 12))
    yield from asked(10, start=9, archived=(0, 5))
    yield from asked(10, log=(0, 3, None), archived=(1, 3), other=elsewhere)
    yield from asked(10, log=(0, 3, None), archived=(1, 3), other=elsewhere, topics=("t", "v"))
    yield from asked(7)
    log = LogSide(
        path="d/t-0", range=OffsetRange(0, 5), high_watermark=None, is_compacted=False,
        totals=CheckTotals(), windows={0: WindowCount(records=5)},
    )  # fmt: skip
    served = {0: WindowCount(records=4)}
    yield from check_counts(
        PartitionSides(T0, [log], cluster=OffsetRange(0, 5), cluster_windows=served)
    )


def hole(first: int, last: int, reason: str, missing: int | None = None) -> HoleEntry:
    return HoleEntry(
        topic="t", partition=0, first_offset=first, last_offset=last, reason=reason,
        missing=last - first + 1 if missing is None else missing,
    )  # fmt: skip


def said_of_offsets() -> Iterator[Finding]:
    def compared(
        archived: Iterable[int],
        *holes: HoleEntry,
        upto: int = 10,
        start: int = 0,
        batches: Sequence[tuple[int, int, int, int]] = ((0, 4, 5, 0), (5, 9, 5, 0)),
    ) -> list[Finding]:
        log = ComparedLog(
            path="d/t-0", topic_partition=T0, start_offset=start, end_offset=batches[-1][1] + 1,
            is_compacted=False, batches=LogBatches(*np.array(batches, np.int64).T),
        )  # fmt: skip
        offsets = ArchivedOffsets(
            path="archive", runs=as_runs(np.array([*archived], np.int64)),
            unknown=as_runs(np.array([], np.int64)), stretches=(Stretch(0, upto),), holes=holes,
        )  # fmt: skip
        findings = Findings()
        compare_offsets(log, offsets, findings)
        return findings.all()

    kept = [*range(5), *range(7, 10)]
    yield from compared(kept)
    yield from compared(kept, hole(5, 6, ABORTED))
    yield from compared(kept, hole(5, 6, UNEXPLAINED))
    yield from compared(kept, hole(5, 6, COMPACTION))
    yield from compared(range(12), upto=12)
    yield from compared(range(7), upto=7)
    yield from compared(range(7), upto=7, start=20, batches=[(20, 24, 5, 0)])
    yield from compared(range(10), batches=[(0, 4, 5, 0), (5, 5, 1, CONTROL), (8, 9, 2, 0)])


def file_entry(name: str, first: int, last: int) -> FileEntry:
    return FileEntry(
        path=f"data/{name}.parquet", topic="t", partition=0, hour="2026-11-21T13",
        first_offset=first, last_offset=last, rows=last - first + 1, size_bytes=1,
        min_timestamp_ms=-1, max_timestamp_ms=-1, checksum="crc32c:00000000",
    )  # fmt: skip


def said_of_a_partition() -> Iterator[Finding]:
    def checked(*holes: HoleEntry, files: Sequence[tuple[str, int, int]]) -> Sequence[Finding]:
        state = archive_state.ArchiveState(
            path="archive", archive_id="a", ranges={T0: (Stretch(0, 10),)}, holes={T0: holes}
        )
        results = [
            FileResult(
                entry=file_entry(*file), findings=[], windows={}, cpu_s=0.0,
                runs=as_runs(np.arange(file[1], file[2] + 1, dtype=np.int64)),
            )
            for file in files
        ]  # fmt: skip
        return check_coverage(state, T0, results).findings

    yield from checked(files=[("a", 0, 6), ("b", 4, 8)])
    yield from checked(files=[("a", 0, 9), ("b", 10, 12)])
    yield from checked(hole(3, 4, ABORTED), files=[("a", 0, 9)])
    yield from checked(hole(3, 6, UNEXPLAINED, 2), files=[("a", 0, 4), ("b", 7, 9)])


def said_of_files(directory: Path) -> Iterator[Finding]:
    path = directory / "data" / "f.parquet"
    path.parent.mkdir(parents=True)
    entry = file_entry("f", 0, 2)
    columns = {
        "topic": ["t"] * 3, "partition": pa.array([0] * 3, pa.int32()), "offset": [0, 1, 2],
        "timestamp": pa.array([0, 0, 0], pa.timestamp("us", "UTC")),
    }  # fmt: skip

    def checked(
        wanted: FileEntry = entry, *, content: bytes | None = None, **changed: object
    ) -> Sequence[Finding]:
        if content is None:
            pq.write_table(pa.table({**columns, **changed}), path)
            checksum = file_checksum(str(path))
            size = path.stat().st_size
            wanted = msgspec.structs.replace(wanted, checksum=checksum, size_bytes=size)
        else:
            path.write_bytes(content)
        task = FileTask(archive=str(directory), entry=wanted, window_ms=HOUR_MS)
        return check_parquet(task).findings

    yield from check_parquet(FileTask(archive=str(directory), entry=entry, window_ms=1)).findings
    yield from checked(content=b"four")
    yield from checked(content=b"4")
    in_time = msgspec.structs.replace(entry, hour="1970-01-01T00")
    yield from checked(in_time, topic=["t", "u", "t"])
    yield from checked(in_time, offset=[0, 0, 1])
    yield from checked(in_time, offset=[1, 0, 2])
    yield from checked(entry)
    yield from checked(
        msgspec.structs.replace(in_time, rows=4, min_timestamp_ms=3, max_timestamp_ms=4)
    )
    pq.write_table(pa.table({"offset": [1]}), path)
    yield from checked(
        msgspec.structs.replace(
            entry, checksum=file_checksum(str(path)), size_bytes=path.stat().st_size
        ),
        content=path.read_bytes(),
    )


def said_of_manifests(archive: Path) -> Iterator[Finding]:
    def read() -> list[Finding]:
        findings = Findings()
        foreign_files(read_history(str(archive), findings), findings)
        return findings.all()

    def written(name: str, content: bytes) -> list[Finding]:
        path = Path(name)
        before = path.read_bytes() if path.exists() else None
        path.write_bytes(content)
        told = read()
        path.unlink() if before is None else path.write_bytes(before)
        return told

    state = archive_reading.read_archive(str(archive))
    last = archive_reading.manifest_path(str(archive), state.number)
    manifest = decode_manifest(Path(last).read_bytes())
    snapshot_path = archive_reading.snapshot_path(str(archive), state.number)
    snapshot = state.snapshot()
    yield from written(last, b"{}")
    for changes in (
        {"archive_id": OTHER_ID}, {"added": ()}, {"removed": ("data/x.parquet",)},
        {"added": (*manifest.added, next(iter(state.files.values())))},
    ):  # fmt: skip
        yield from written(last, encode_manifest(msgspec.structs.replace(manifest, **changes)))
    yield from written(snapshot_path, seal(msgspec.structs.replace(snapshot, files=())))
    yield from written(snapshot_path, seal(snapshot)[:-1])
    yield from written(f"{archive}/{archive_reading.MARK_NAME}", b"{}")
    yield from written(f"{archive}/data/left.parquet", b"")
    Path(archive_reading.manifest_path(str(archive), 1)).unlink()
    yield from read()
    (archive / archive_reading.MARK_NAME).unlink()
    yield from read()


def said_of_contents(data: Path, archive: Path) -> Iterator[Finding]:
    (entry, *_) = archive_reading.read_archive(str(archive)).entries(TopicPartition("plain", 0))
    path = archive / entry.path
    table = pq.ParquetFile(path).read()
    index = table.column_names.index("value")
    column = [b"another", *table.column("value").to_pylist()[1:]]
    kind = table.schema.field("value").type
    pq.write_table(table.set_column(index, "value", pa.array(column, kind)), path)
    segment = min((data / "plain-0").glob("*.log"))
    task = ContentsTask(
        directory=str(data / "plain-0"), topic_partition=entry.topic_partition,
        base_offset=int(segment.stem), archive=str(archive), files=(entry,),
    )  # fmt: skip
    yield from compare_contents(task).findings


def said_of_another_topic(data: Path) -> Iterator[AuditFinding]:
    request = AuditRequest(
        directories=(str(data),), topics=("plain",), window_ms=HOUR_MS, now_ms=2**42
    )
    tasks, _ = plan_logs(request)
    yield from other_topics(run_logs(tasks, {}, InProcess()), {"plain": OTHER_ID})


def rows(
    findings: Iterable[Finding | AuditFinding], hidden: dict[str, str]
) -> Iterator[dict[str, object]]:
    """Yield what differs in more than its place, without paths and ids of this run and without the
    words of libraries.
    """
    seen = set()
    for each in findings:
        finding = each.finding if isinstance(each, AuditFinding) else each
        what = finding.what.partition(FOREIGN_WORDS.get(finding.code, "\n"))[0]
        if (kind := (finding.severity, finding.code, what, finding.advice)) in seen:
            continue
        seen.add(kind)
        row = {
            "severity": finding.severity.name, "code": finding.code, "path": finding.path,
            "position": finding.position, "offset": finding.offset, "what": what,
            "advice": finding.advice, "meaning": finding.code.meaning,
        }  # fmt: skip
        text = json.dumps(row)
        for name, shown in hidden.items():
            text = text.replace(name, shown)
        yield json.loads(text)


def test_every_finding_has_its_words(data: Path, archive: Path, tmp_path: Path) -> None:
    archive_id = archive_reading.read_archive(str(archive)).archive_id
    told = [
        *said_of_a_cluster(),
        *said_of_offsets(),
        *said_of_a_partition(),
        *said_of_files(tmp_path / "files"),
        *said_of_contents(data, archive),
        *said_of_another_topic(data),
        *said_of_manifests(archive),
    ]

    golden = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
    assert list(rows(told, {str(tmp_path): "DIR", archive_id: "ARCHIVE-ID"})) == golden
    assert {row["code"] for row in golden} == set(AuditCode)
