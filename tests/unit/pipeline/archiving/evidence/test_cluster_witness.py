"""Holes of a running cluster: raw fetches around them, as few as serve."""

from __future__ import annotations

from collections import Counter

from kbroker.client.raw_fetch import RawFetch
from kbroker.model import TopicPartition
from kbroker.pipeline.archiving.evidence.cluster_evidence import look
from kbroker.pipeline.archiving.evidence.hole_reasons import holes_with_reasons
from kbroker.pipeline.archiving.manifests.covered_ranges import Stretch
from kbroker.record.default_record import Record
from kbroker.record.record_batch import (
    CONTROL_BIT,
    TRANSACTIONAL_BIT,
    BatchOptions,
    ControlRecord,
    build,
    build_marker,
)
from tests.fakes.logs.unreadable_batches import unreadable_batch

T0 = TopicPartition("t", 0)
MS = 1_795_300_000_000


def batch(base: int, last: int, missing: tuple[int, ...] = (), producer_id: int = -1) -> bytes:
    records = [Record(at, MS, None, b"v") for at in range(base, last + 1) if at not in missing]
    flags = TRANSACTIONAL_BIT if producer_id >= 0 else 0
    options = BatchOptions(flags=flags, producer_id=producer_id, last_offset=last)
    return build(records, base_offset=base, options=options)


def marker(offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    options = BatchOptions(producer_id=producer_id)
    return build_marker(ControlRecord(is_commit, 0), MS, base_offset=offset, options=options)


class Log:
    """A partition of whole batches by their last offset, answering like a broker."""

    def __init__(self, *batches: tuple[int, bytes], at_once: int = 100, log_start: int = 0) -> None:
        self.batches = batches
        self.at_once = at_once
        self.log_start = log_start
        self.aborted: tuple[tuple[int, int], ...] = ()
        self.asked: list[int] = []
        self.sizes: list[int] = []

    def fetch(self, offset: int, size_bytes: int) -> RawFetch:
        self.asked.append(offset)
        self.sizes.append(size_bytes // 1024)
        if offset < self.log_start:
            return RawFetch(b"", (), self.log_start)
        found = [data for last, data in self.batches if last >= offset][: self.at_once]
        cut = b"".join(found) + batch(10_000, 10_001)[:40]  # as a limit in bytes leaves it
        return RawFetch(cut, self.aborted, self.log_start)


def reasons(log: Log, *holes: tuple[int, int], is_compacted: bool = False) -> dict[str, int]:
    stretches = [Stretch(*each) for each in holes]
    found: Counter[str] = Counter()
    for hole in holes_with_reasons(
        T0, stretches, look(log.fetch, stretches, is_compacted=is_compacted)
    ):
        found[hole.reason] += hole.missing
    return dict(found)


def test_one_fetch_serves_holes_that_lie_close_together() -> None:
    log = Log((3, batch(0, 3, (1,))), (4, marker(4, 7, is_commit=True)), (9, batch(5, 9, (6, 7))))

    assert reasons(log, (1, 2), (4, 5), (6, 8)) == {"compaction": 3, "transaction marker": 1}
    assert log.asked == [1]


def test_holes_that_lie_far_apart_are_fetched_one_by_one() -> None:
    log = Log(*((at, batch(at, at)) for at in range(50) if at not in (10, 40)), at_once=2)

    assert reasons(log, (10, 11), (40, 41), is_compacted=True) == {"compaction": 2}
    assert log.asked == [10, 40]


def test_answers_grow_where_holes_lie_side_by_side() -> None:
    compacted = Log(*((at, batch(at, at)) for at in range(0, 40, 2)), at_once=2)

    assert reasons(compacted, *((at, at + 1) for at in range(1, 39, 2)), is_compacted=True) == {
        "compaction": 19
    }
    assert compacted.sizes[:5] == [64, 256, 1024, 4096, 4096]


def test_answers_stay_small_where_holes_lie_apart() -> None:
    log = Log(*((at, batch(at, at)) for at in range(90) if at not in (10, 40, 80)), at_once=2)

    assert reasons(log, (10, 11), (40, 41), (80, 81), is_compacted=True) == {"compaction": 3}
    assert log.sizes == [64, 64, 64]


def test_a_long_hole_is_looked_through_in_large_answers() -> None:
    aborted = Log(*((at, batch(at, at, producer_id=7)) for at in range(9)), at_once=3)
    aborted.aborted = ((7, 0),)

    assert reasons(aborted, (0, 9)) == {"aborted transaction": 9}
    assert aborted.sizes == [64, 256, 1024]


def test_batches_of_an_aborted_transaction_are_told_from_those_after_it() -> None:
    log = Log(
        (1, batch(0, 1, producer_id=7)),
        (2, marker(2, 7, is_commit=False)),
        (4, batch(3, 4, producer_id=7)),
        (5, marker(5, 7, is_commit=True)),
    )
    log.aborted = ((7, 0),)

    assert reasons(log, (0, 3), (5, 6)) == {"aborted transaction": 2, "transaction marker": 2}
    log.aborted = ()  # the transaction ended before what is asked for next
    assert reasons(log, (3, 4)) == {"unreadable": 1}


def test_a_marker_that_cannot_be_read_is_one() -> None:
    log = Log((0, batch(0, 0)), (1, unreadable_batch(1, flags=CONTROL_BIT)), (2, batch(2, 2)))

    assert reasons(log, (1, 2)) == {"transaction marker": 1}


def test_what_retention_took_is_before_the_log() -> None:
    log = Log((9, batch(6, 9)), log_start=6)

    assert reasons(log, (2, 6)) == {"retention": 4}


def test_a_hole_where_nothing_stands_stays_unexplained() -> None:
    log = Log((3, batch(0, 3)))

    assert reasons(log, (4, 6)) == {"unexplained": 2}
