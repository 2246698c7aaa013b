"""The rule by which batches of a segment count; all readers of segment files follow it.

A batch counts when it is whole, its checksum is right, and it stands where its offsets can be. The
checksum does not cover the base offset, so offsets are checked against the neighbours'. `expected`
is the offset after the last batch that counts, at first the segment's base offset; `end_offset` is
where the next segment begins, or the log ends.

    a batch that cannot stand        its offsets begin before `expected`, end before they begin, or
                                     reach `end_offset`: it does not count
    one that begins with `expected`  counts: it needs no other witness
    one after a gap                 counts unless the batch right after it is sound, could stand
                                     in its place, and claims some of its offsets: one of the two
                                     was moved. A gap alone is not a fault: compaction leaves gaps
    one that contradicts so          counts if what follows goes on where it ends

To recovery, which may cut a log, a gap proves less: see `recoverable`.

Law: offsets in, judgements out; offsets are those of the first and last record, inclusive. For a
message of an old format that wraps others, the header gives only the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from kbroker.record.record_batch import BatchHeader

_T = TypeVar("_T")


class Span(NamedTuple):
    """The offsets that a batch claims, both inclusive."""

    first: int
    last: int


def span_of(header: BatchHeader) -> Span:
    return Span(header.base_offset, header.last_offset)


def can_stand(batch: Span, expected: int, end_offset: int) -> bool:
    """Whether a batch can have these offsets where it stands, whatever its neighbours say."""
    return expected <= batch.first <= batch.last < end_offset


def is_contradicted(batch: Span, behind: Span | None, expected: int, end_offset: int) -> bool:
    """Whether the intact batch right after one that can stand contradicts it; None without one."""
    return (
        behind is not None
        and batch.first != expected
        and behind.first <= batch.last
        and can_stand(behind, expected, end_offset)
    )


def is_confirmed(behind: Span, next_offset: int) -> bool:
    """Whether a batch that contradicts the one before it is the right one of the two. `next_offset`
    is where the data after both begins.
    """
    return behind.last + 1 == next_offset


def recoverable(
    intact: Iterable[tuple[int, BatchHeader, int, _T]],
    base_offset: int,
    end_offset: int,
    *,
    gapless_from: int,
) -> Iterator[tuple[int, BatchHeader, int, _T]]:
    """Yield the batches of a segment that recovery keeps: those before the first that does not
    count.

    `intact`: (first offset, header, position, anything) of its batches, up to the first that is not
    whole or has a wrong checksum. From `gapless_from` on the log was written without gaps. Beyond
    it a last batch after a gap does not count, as no batch after it agrees. Neither does a batch
    with an earlier leader epoch than the one before it: that was cut off, and a power loss has
    brought it back in space that later ones took.
    """
    expected = base_offset
    epoch = -1
    held: tuple[int, BatchHeader, int, _T] | None = None  # after a gap
    for batch in intact:  # 500,000 a second: no call for each
        first, header, _, _ = batch
        last = header.base_offset + header.last_offset_delta
        if not expected <= first <= last < end_offset:
            break
        if first > gapless_from and 0 <= header.partition_leader_epoch < epoch:
            break
        epoch = header.partition_leader_epoch
        if held is not None:
            held_span = Span(held[0], held[1].last_offset)
            if is_contradicted(held_span, Span(first, last), expected, end_offset):
                return  # the batches after these would have to say which of the two is right
            yield held
            expected = held_span.last + 1
            held = None
        if first == expected:
            expected = last + 1
            yield batch
        else:
            held = batch
    if held is not None and held[0] <= gapless_from:
        yield held


def end_after_clean_stop(
    sound: Iterable[tuple[int, BatchHeader]],
    base_offset: int,
    size_bytes: int,
    noted: int,
    *,
    is_noted_twice: bool,
) -> int:
    """The end of a log whose last segment, of `size_bytes`, claims another end than the stop noted.

    `sound`: (position, header) of the last batches that count. The last of them is right, unless
    damage follows it, or its own offset was damaged: the noted end knows better then. If the batch
    before it is damaged, too, only an end that was noted twice does.
    """
    last: BatchHeader | None = None
    end_offset = before_last = base_offset
    end_position = 0
    is_after_damage = False
    for position, header in sound:
        before_last = end_offset if last is not None else header.base_offset
        is_after_damage = last is not None and position != end_position
        last, end_offset, end_position = header, header.next_offset, position + header.size_bytes
    is_misplaced = False
    if last is not None and last.base_offset != before_last:
        nearest = before_last + last.last_offset_delta + 1
        is_misplaced = noted == nearest or (
            is_after_damage and is_noted_twice and nearest < noted < end_offset
        )
    if end_position < size_bytes or is_misplaced:
        return max(before_last if is_misplaced else end_offset, noted)
    return end_offset


def misses_records_before(base_offset: int, end_offset: int, gaps_up_to: int) -> bool:
    """Whether a power loss took the end of the segment before, which now ends at `end_offset`, and
    left the segment that begins at `base_offset`. Up to `gaps_up_to`, a gap proves nothing.
    """
    return base_offset > gaps_up_to and base_offset != end_offset


def is_older(base_offset: int, epoch: int, latest_epoch: int, gapless_from: int) -> bool:
    """Whether a power loss has brought back a segment that was cut off: it begins with an earlier
    leader epoch than the last one of the segment before. -1 if none is known.
    """
    return base_offset > gapless_from and 0 <= epoch < latest_epoch
