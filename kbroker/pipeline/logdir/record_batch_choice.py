"""Which batches of a piece a task wants, judged by their headers alone.

As a Java consumer does: markers are for nobody, batches of aborted transactions are left out, and
what lies outside the range is not looked at.
"""

from __future__ import annotations

import numpy as np

from kbroker.pipeline.logdir.batch_headers import BatchHeaders, Bools
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask


def first_misplaced(
    headers: BatchHeaders, expected: int, follower_offset: int | None
) -> tuple[int, str] | None:
    """(index, reason) of the first batch whose offsets cannot stand where it does.

    Checksums do not cover the base offset, so neighbours are asked. `expected`: the least offset
    of the first batch; `follower_offset`: base offset of what comes behind, if that is known.
    """
    base, last = headers.field("base_offset"), headers.last_offset
    before = np.concatenate(([expected - 1], last[:-1]))
    behind = np.append(base[1:], last[-1] + 1 if follower_offset is None else follower_offset)
    # A follower may be a compressed message of an old format, whose offset is that of its last
    # record: it is not less than its first.
    wrong = (base <= before) | (last < base) | (behind <= last)
    if not wrong.any():
        return None
    index = int(np.argmax(wrong))
    if base[index] <= before[index] or last[index] < base[index]:
        reason = f"it claims the offsets {base[index]} to {last[index]}, behind {before[index]}"
    else:
        reason = f"it claims the offsets {base[index]} to {last[index]}, before {behind[index]}"
    return index, reason


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
