"""A data directory with its archive, whose files can be injured and made whole again."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from kbroker.inspection.finding import Severity
from kbroker.inspection.log_walk import DEAD
from kbroker.log.disk.format import file_name, parse_directory_name
from kbroker.model import TopicPartition
from kbroker.pipeline.auditing.audit_finding import AuditFinding
from kbroker.pipeline.auditing.audit_job import Means, run_plan
from kbroker.pipeline.auditing.audit_plan import plan_audit
from kbroker.pipeline.auditing.audit_report import AuditReport, AuditRequest
from kbroker.pipeline.auditing.clusters.cluster_offsets import ClusterOffsets
from kbroker.pipeline.auditing.window_counts import HOUR_MS
from kbroker.pipeline.spark_job.spread import InProcess
from kbroker.record.legacy_record import read_any_header
from kbroker.record.record_batch import ATTRIBUTES_POSITION, CRC_POSITION, MAGIC, BatchHeader

NOW_MS = 4_102_444_800_000  # 2100: later than anything that was written
BOOTSTRAP = "cluster:9092"

Ask = Callable[[str, tuple[str, ...] | None], ClusterOffsets]


@dataclass(frozen=True)
class Planted:
    """What was done, and what has to be said of it: one of these codes, of this path (the end of
    it, without what is in brackets), and where given at one of these positions or offsets.
    """

    codes: tuple[str, ...]
    path: str
    topic: str | None = None  # the audit may leave all others out
    positions: tuple[int, ...] = ()
    offsets: range | None = None
    needs_deep: bool = False
    ask: Ask | None = None  # the cluster answers so

    def is_named_by(self, each: AuditFinding) -> bool:
        """Whether a finding says it, at the right place."""
        finding = each.finding
        if finding.severity < Severity.WARNING and finding.advice != DEAD:
            return False
        if finding.code not in self.codes:
            return False
        if self.path not in finding.path:
            return False
        if self.positions and finding.position not in self.positions:
            return False
        return self.offsets is None or (
            finding.offset is not None and finding.offset in self.offsets
        )


class Batch(NamedTuple):
    """One batch of a segment file."""

    position: int
    header: BatchHeader
    data: bytes


@dataclass
class Case:
    """`directory` is a data directory, `archive` the archive of its topics."""

    name: str
    directory: Path
    archive: Path
    _whole: dict[Path, bytes | None] = field(default_factory=dict)
    _baseline: dict[tuple[str | None, bool], set[tuple[object, ...]]] = field(default_factory=dict)

    def write(self, path: Path, data: bytes) -> None:
        """Give a file another content."""
        self._whole.setdefault(path, path.read_bytes() if path.exists() else None)
        path.write_bytes(data)

    def remove(self, path: Path) -> None:
        """Take a file away."""
        self._whole.setdefault(path, path.read_bytes())
        path.unlink()

    def heal(self) -> None:
        """Bring back all files as they were."""
        for path, data in self._whole.items():
            if data is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(data)
        self._whole.clear()

    def segments(self, *, least: int = 1) -> list[Path]:
        """Log files that hold records, of partitions with so many of them; not those of internal
        topics and of the one with gaps of its own.
        """
        found = []
        for partition in sorted(self.directory.iterdir()):
            place = parse_directory_name(partition.name) if partition.is_dir() else None
            if place is None or place.topic.startswith(("__", "gaps")):
                continue
            files = sorted(path for path in partition.glob("*.log") if path.stat().st_size)
            if len(files) >= least:
                found += files
        return found

    def audit(self, planted: Planted | None = None, *, is_deep: bool = False) -> AuditReport:
        """Look at everything, or at what belongs to one topic."""
        topics = (planted.topic,) if planted and planted.topic else ()
        ask = planted.ask if planted else None
        request = AuditRequest(
            directories=(str(self.directory),),
            archive=str(self.archive),
            bootstrap=BOOTSTRAP if ask else None,
            topics=topics,
            is_deep=is_deep or bool(planted and planted.needs_deep),
            window_ms=HOUR_MS,
            now_ms=NOW_MS,
        )
        means = Means(spread=InProcess(), ask=ask) if ask else Means(spread=InProcess())
        return run_plan(plan_audit(request, means.ask), means)

    @cached_property
    def as_it_is(self) -> AuditReport:
        """A deep audit before anything was done."""
        assert not self._whole
        return self.audit(is_deep=True)

    def is_found(self, planted: Planted) -> bool:
        """Whether an audit names the fault, with a finding that it does not have without it."""
        before = self._sound(planted)
        return any(
            planted.is_named_by(each) and _identity(each) not in before
            for each in self.audit(planted).findings
        )

    def _sound(self, planted: Planted) -> set[tuple[object, ...]]:
        """Return what the audit says of the case before anything was done to it."""
        return self._baseline.get((planted.topic, planted.needs_deep), set())

    def learn(self) -> None:
        """Remember what is said of the case as it is."""
        findings = {_identity(each) for each in self.as_it_is.findings}
        topics = {place_of(path).topic for path in self.segments()}
        for topic in (None, *topics):
            for is_deep in (False, True):
                self._baseline[topic, is_deep] = findings


def _identity(each: AuditFinding) -> tuple[object, ...]:
    finding = each.finding
    return finding.code, finding.path, finding.position, finding.offset, finding.what


def place_of(segment: Path) -> TopicPartition:
    """The partition of a segment file."""
    place = parse_directory_name(segment.parent.name)
    assert place is not None
    return place


def batches_of(data: bytes) -> list[Batch]:
    """All batches of a segment."""
    return list(_batches(data))


def _batches(data: bytes) -> Iterator[Batch]:
    at = 0
    while at < len(data):
        header = read_any_header(data, at)
        yield Batch(at, header, data[at : at + header.size_bytes])
        at += header.size_bytes


def with_fields(batch: Batch, **fields: int) -> bytes:
    """A batch of format 2 with other values in its header, and the right CRC."""
    assert batch.header.magic == MAGIC
    header = batch.header._replace(**fields)
    return with_crc(struct.pack(">qiibIhiqqqhii", *header) + batch.data[61:])


def with_crc(data: bytes) -> bytes:
    """A batch with the CRC of its bytes."""
    crc = crc32c(data[ATTRIBUTES_POSITION:])
    return data[:CRC_POSITION] + crc.to_bytes(4, "big") + data[ATTRIBUTES_POSITION:]


def beside(segment: Path, suffix: str) -> Path:
    """The file of the same segment with this suffix."""
    return segment.parent / file_name(int(segment.stem), suffix)
