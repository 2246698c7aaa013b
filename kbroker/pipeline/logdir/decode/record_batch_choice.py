"""Chooses batches of a piece by their headers alone: those that may not count, and those that a
task wants.

As in a Java consumer, markers are for nobody, batches of aborted transactions are left out, and
nothing outside the range is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kbroker.pipeline.logdir.decode.batch_headers import BatchHeaders, Bools
from kbroker.pipeline.logdir.segment_task import ReadOptions, SegmentTask


def doubtful_batches(
    headers: BatchHeaders, right: Bools, expected: int, end_offset: int, follower: int | None
) -> Iterator[int]:
    """Indexes of the batches that may not count: all others do, by the rule of
    `record.batch_order`. Of wrappers the last offset alone is known.

    `right`: their checksums match; `expected`: the least offset of the first batch; `follower`: the
    base offset of the batch after the last, if it is known.
    """
    base, last = headers.field("base_offset"), headers.last_offset
    before = np.concatenate(([expected - 1], last[:-1]))
    doubtful = ~right | (base <= before) | (last < base) | (last >= end_offset)
    behind_gap = base != before + 1
    if behind_gap.any():
        behind = np.append(base[1:], last[-1] if follower is None else follower)
        doubtful |= behind_gap & (behind <= last)
    if doubtful.any():
        yield from np.flatnonzero(doubtful).tolist()


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
