"""Holes of logs that Apache Kafka wrote: each is explained by what stands around it."""

from __future__ import annotations

from collections import Counter

import pytest

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.hole_reasons import holes_with_reasons
from kbroker.pipeline.archiving.evidence.log_evidence import LogWitness
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch, gaps, joined_ranges
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.logdir.directory.partition_log import Disk
from tests.fakes.disks.memory_file_system import MemoryFileSystem
from tests.golden import golden_logs


def disk_of(name: str) -> Disk:
    file_system = MemoryFileSystem()
    for path, data in golden_logs.files(name).items():
        file_system.make_directory(f"/data/{path}".rpartition("/")[0])
        file_system.write_bytes(f"/data/{path}", data)
    return Disk(file_system, is_locked=lambda _: False)


def holes_of(name: str) -> dict[TopicPartition, tuple[Stretch, ...]]:
    """Return what a Java client of committed records did not get, between start and end."""
    records: dict[TopicPartition, list[tuple[int, int]]] = {}
    ranges: dict[TopicPartition, tuple[int, int]] = {}
    for row in golden_logs.lines(name, "expected"):
        if row.get("isolation") != "read_committed":
            continue
        partition = TopicPartition(row["topic"], row["partition"])
        if row["kind"] == "offsets":
            ranges[partition] = (row["start"], row["end"])
        else:
            records.setdefault(partition, []).append((row["offset"], row["offset"] + 1))
    found = {tp: gaps(joined_ranges(records.get(tp, [])), within) for tp, within in ranges.items()}
    return {tp: holes for tp, holes in found.items() if holes and not tp.topic.startswith("__")}


@pytest.mark.parametrize("name", [*golden_logs.CLEAN, *golden_logs.COMPACTED])
def test_every_hole_of_a_golden_log_has_its_reason(name: str) -> None:
    witness = LogWitness(["/data"], disk_of(name))
    reasons: Counter[tuple[str, str]] = Counter()
    wanted: Counter[str] = Counter()
    for partition, holes in holes_of(name).items():
        seen = witness.surroundings(partition, holes)
        for hole in holes_with_reasons(partition, holes, seen):
            reasons[partition.topic, hole.reason] += hole.missing
        wanted[partition.topic] += sum(end - start for start, end in holes)

    assert {topic for topic, reason in reasons if reason == "unexplained"} == set()
    for topic, count in wanted.items():
        assert sum(found for (of, _), found in reasons.items() if of == topic) == count


def test_transactions_leave_markers_and_aborted_records() -> None:
    name = golden_logs.CLEAN[0]
    partition = TopicPartition("txn", 0)
    holes = holes_of(name)[partition]
    seen = LogWitness(["/data"], disk_of(name)).surroundings(partition, holes)

    found = {hole.reason for hole in holes_with_reasons(partition, holes, seen)}

    assert found == {"transaction marker", "aborted transaction"}


def test_a_partition_that_has_gone_is_named() -> None:
    witness = LogWitness(["/data"], disk_of(golden_logs.CLEAN[0]))

    with pytest.raises(PipelineError, match="gone-0 was removed from /data"):
        witness.surroundings(TopicPartition("gone", 0), [Stretch(0, 1)])
