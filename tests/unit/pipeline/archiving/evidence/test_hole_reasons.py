"""Why offsets are missing: from what stands in the log around them."""

from __future__ import annotations

from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.hole_reasons import (
    Cover,
    CoverKind,
    HoleContext,
    holes_with_reasons,
)
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch

T0 = TopicPartition("t", 0)
ALL = 2**63 - 1


def reasons(
    holes: list[tuple[int, int]], *covers: Cover, log_start: int = 0, compacted: int = 0
) -> list[tuple[int, int, str]]:
    seen = HoleContext(covers=covers, log_start_offset=log_start, compacted_end_offset=compacted)
    found = holes_with_reasons(T0, [Stretch(*each) for each in holes], seen)
    assert all(each.missing == each.last_offset - each.first_offset + 1 for each in found)
    return sorted((each.first_offset, each.last_offset, each.reason) for each in found)


def test_a_marker_explains_its_offset() -> None:
    marker = Cover(5, 5, 1, CoverKind.MARKER)

    assert reasons([(5, 6)], marker) == [(5, 5, "transaction marker")]


def test_an_aborted_batch_and_its_marker_are_two_reasons() -> None:
    covers = Cover(3, 6, 4, CoverKind.ABORTED), Cover(7, 7, 1, CoverKind.MARKER)

    assert reasons([(3, 8)], *covers) == [
        (3, 6, "aborted transaction"),
        (7, 7, "transaction marker"),
    ]


def test_a_batch_with_fewer_records_than_offsets_was_compacted() -> None:
    assert reasons([(2, 4)], Cover(0, 9, 8, CoverKind.RECORDS)) == [(2, 3, "compaction")]


def test_records_that_a_batch_still_has_were_not_read() -> None:
    assert reasons([(2, 4)], Cover(0, 9, 10, CoverKind.RECORDS)) == [(2, 3, "unreadable")]


def test_more_missing_than_compaction_took_was_not_read() -> None:
    holes = [(2, 4), (6, 7)]

    assert reasons(holes, Cover(0, 9, 8, CoverKind.RECORDS)) == [
        (2, 3, "unreadable"),
        (6, 6, "unreadable"),
    ]


def test_no_batch_at_all_is_compaction_where_the_cleaner_has_been() -> None:
    covers = Cover(0, 3, 4, CoverKind.RECORDS), Cover(8, 9, 2, CoverKind.RECORDS)

    assert reasons([(4, 8)], *covers, compacted=ALL) == [(4, 7, "compaction")]
    assert reasons([(4, 8)], *covers, compacted=6) == [(4, 5, "compaction"), (6, 7, "unexplained")]
    assert reasons([(4, 8)], *covers) == [(4, 7, "unexplained")]


def test_before_the_log_it_was_retention() -> None:
    after = Cover(6, 9, 2, CoverKind.RECORDS)

    assert reasons([(0, 8)], after, log_start=5, compacted=ALL) == [
        (0, 4, "retention"),
        (5, 7, "compaction"),
    ]


def test_formats_that_count_no_records_explain_nothing_within_a_batch() -> None:
    assert reasons([(2, 3)], Cover(0, 3, -1, CoverKind.RECORDS)) == [(2, 2, "unexplained")]
