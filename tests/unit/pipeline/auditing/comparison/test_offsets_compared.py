from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from kbroker.inspection.finding import Findings
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.pipeline.archiving.manifests.manifest import (
    ABORTED,
    COMPACTION,
    TRANSACTION_MARKER,
    UNEXPLAINED,
    HoleEntry,
)
from kbroker.pipeline.auditing.archives.archived_offsets import ArchivedOffsets, as_runs
from kbroker.pipeline.auditing.comparison.offsets_compared import (
    CONTROL,
    OPAQUE,
    TRANSACTIONAL,
    ComparedLog,
    LogBatches,
    compare_offsets,
)

PLACE = TopicPartition("t", 0)
Batches = list[tuple[int, int, int, int]]


def hole(first: int, last: int, reason: str) -> HoleEntry:
    return HoleEntry(
        topic="t", partition=0, first_offset=first, last_offset=last, missing=last - first + 1,
        reason=reason,
    )  # fmt: skip


def compared(
    batches: Batches,
    archived: Iterable[int],
    *holes: HoleEntry,
    upto: int | None = None,
    is_compacted: bool = False,
    start: int = 0,
    unknown: Iterable[int] = (),
) -> list[tuple[str, str, int | None]]:
    columns = np.array(batches, np.int64).reshape(-1, 4).T
    end = int(columns[1].max()) + 1
    log = ComparedLog(
        path="dir/t-0", topic_partition=PLACE, start_offset=start, end_offset=end,
        is_compacted=is_compacted, batches=LogBatches(*columns),
    )  # fmt: skip
    offsets = ArchivedOffsets(
        path="archive", runs=as_runs(np.array(sorted(archived), np.int64)), unknown=as_runs(np.array([*unknown], np.int64)),
        stretches=(Stretch(0, end if upto is None else upto),), holes=holes,
    )  # fmt: skip
    findings = Findings()
    compare_offsets(log, offsets, findings)
    return [(finding.code, finding.severity.name, finding.offset) for finding in findings.all()]


FULL: Batches = [(0, 4, 5, 0), (5, 9, 5, 0)]


def test_the_same_offsets_are_no_finding() -> None:
    assert compared(FULL, range(10)) == []


def test_a_lost_row_is_named() -> None:
    assert compared(FULL, set(range(10)) - {7}) == [("archive-lost", "ERROR", 7)]


@pytest.mark.parametrize(
    ("flags", "reason", "expected"),
    [
        (TRANSACTIONAL, ABORTED, []),
        (0, ABORTED, [("archive-lost", "ERROR", 5)]),
        (0, UNEXPLAINED, [("archive-lost", "ERROR", 5)]),
        (0, COMPACTION, [("archive-hole-contradicted", "WARNING", 5)]),
    ],
)
def test_a_hole_is_believed_where_the_log_does_not_contradict(
    flags: int, reason: str, expected: list[tuple[str, str, int]]
) -> None:
    batches = [(0, 4, 5, 0), (5, 9, 5, flags)]

    assert compared(batches, range(5), hole(5, 9, reason)) == expected


def test_neighbouring_holes_explain_together() -> None:
    batches = [(0, 4, 5, 0), (5, 9, 5, TRANSACTIONAL)]

    assert compared(batches, range(5), hole(5, 6, ABORTED), hole(7, 9, ABORTED)) == []
    assert compared(batches, range(5), hole(5, 6, ABORTED), hole(8, 9, ABORTED)) == [
        ("archive-lost", "ERROR", 7)
    ]


def test_a_marker_is_no_record() -> None:
    batches = [(0, 4, 5, TRANSACTIONAL), (5, 5, 1, CONTROL | TRANSACTIONAL)]

    assert compared(batches, range(5), hole(5, 5, TRANSACTION_MARKER)) == []
    assert compared(batches, range(6)) == [("archive-extra", "ERROR", 5)]


def test_an_archive_may_have_what_a_compacted_log_has_not() -> None:
    batches = [(0, 4, 2, 0), (8, 9, 2, 0)]

    assert compared(batches, range(10), is_compacted=True) == []
    assert compared(batches, {0, 1, 8, 9}, is_compacted=True) == []
    assert compared(batches, {1, 8, 9}, is_compacted=True)[0] == ("archive-lost", "ERROR", 0)


def test_what_the_log_lost_is_named() -> None:
    assert compared([(0, 4, 5, 0), (8, 9, 2, 0)], range(10)) == [("log-lost", "ERROR", 5)]
    assert compared(FULL, range(12), upto=12) == [("log-behind-archive", "ERROR", 10)]


def test_what_is_not_archived_yet_is_worth_knowing() -> None:
    assert compared(FULL, range(7), upto=7) == [("archive-behind", "INFO", 7)]


def test_what_retention_took_before_it_was_archived_is_an_error() -> None:
    batches = [(20, 24, 5, 0)]

    assert compared(batches, range(7), upto=7, start=20) == [("archive-overtaken", "ERROR", 7)]


def test_a_wrapper_of_an_old_format_begins_where_the_one_before_ends() -> None:
    wrapped: Batches = [(4, 4, 1, OPAQUE), (9, 9, 1, OPAQUE)]

    assert compared([(0, 0, 1, 0), *wrapped], range(10)) == []
    assert compared([(0, 0, 1, 0), *wrapped], set(range(10)) - {6}) == [
        ("archive-lost", "ERROR", 6)
    ]


def test_the_first_wrapper_begins_with_the_log() -> None:
    assert compared([(4, 4, 1, OPAQUE), (9, 9, 1, OPAQUE)], range(10)) == []


def test_what_the_log_lost_at_its_ends_is_named() -> None:
    assert compared([(5, 9, 5, 0)], range(10)) == [("log-lost", "ERROR", 0)]


def test_rows_of_unreadable_files_are_not_called_lost() -> None:
    assert compared(FULL, range(5), unknown=range(5, 10)) == []
