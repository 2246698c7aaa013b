"""Which batches of a piece a task wants, judged by their headers alone.

As a Java consumer does: markers are for nobody, batches of aborted transactions are left out, and
what lies outside the range is not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Bools
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask


@dataclass(frozen=True, slots=True)
class Unsound:
    """The first batch of a piece that cannot be believed."""

    index: int
    reason: str
    next_index: int  # of the first batch behind it that is not concerned


def first_misplaced(
    headers: BatchHeaders, expected: int, follower_offset: int | None
) -> Unsound | None:
    """The first batch whose offsets cannot stand where it does.

    Checksums do not cover the base offset, so neighbours are asked; where two contradict each
    other, nothing tells which one is right. `expected`: the least offset of the first batch;
    `follower_offset`: base offset of what comes behind, if that is known.
    """
    base, last = headers.field("base_offset"), headers.last_offset
    before = np.concatenate(([expected - 1], last[:-1]))
    behind = np.append(base[1:], last[-1] + 1 if follower_offset is None else follower_offset)
    is_below, is_beyond = (base <= before) | (last < base), behind <= last
    wrong = is_below | is_beyond
    if not wrong.any():
        return None
    index = int(np.argmax(wrong))
    claim = f"it claims the offsets {base[index]} to {last[index]}"
    if is_below[index]:
        return Unsound(index, f"{claim}, behind {before[index]}", index + 1)
    return Unsound(index, f"{claim}, before {behind[index]}", min(index + 2, len(headers)))


def wanted_batches(headers: BatchHeaders, task: SegmentTask, options: ReadOptions) -> Bools:
    """True for each batch that may hold wanted records."""
    wanted = headers.field("record_count") > 0
    wanted &= headers.last_offset >= task.start_offset
    # The first offset of a wrapper is not known; its records are sorted out later.
    wanted &= (headers.field("base_offset") < task.end_offset) | headers.is_wrapper
    if options.min_timestamp_ms is not None:
        # What the largest time of a wrapper is was long left to the producer.
        wanted &= (headers.field("max_timestamp") >= options.min_timestamp_ms) | headers.is_wrapper
    is_control = headers.is_control
    if not options.includes_control:
        wanted &= ~is_control
    if task.aborted and wanted.any():
        wanted &= ~_aborted(headers, task) | is_control
    return wanted


def _aborted(headers: BatchHeaders, task: SegmentTask) -> Bools:
    last = headers.last_offset
    producer_id = headers.field("producer_id")
    first_here, last_here = int(headers.field("base_offset")[0]), int(last[-1])
    found = np.zeros(len(headers), np.bool_)
    for producer, first_offset, last_offset in task.aborted:
        if first_offset <= last_here and last_offset >= first_here:
            found |= (producer_id == producer) & (first_offset <= last) & (last <= last_offset)
    return found & headers.is_transactional
