"""Finds where each record of many batches begins: each record gives the place of the next.

All batches are followed at the same time, a step in each per round; and as long as records of a
batch have one size, many steps at once. Once few batches are left and sizes differ, a loop over the
rest is cheaper.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kbroker.pipeline.logdir.decode.batch_headers import Bools, Int64s
from kbroker.pipeline.logdir.decode.varint_arrays import Uint8s, UnprovenError, read_unsigned
from kbroker.record.default_record import Bytes, read_varint

MIN_RECORD_BYTES: Final = 7
_FIRST_STEPS: Final = 16  # as many records of the same size are hoped for at first
_MAX_STEPS: Final = 4096
_FEW_BATCHES: Final = 96  # a round costs as much as a loop over so many records


class Regions(NamedTuple):
    """The uncompressed records of batches in one buffer."""

    buffer: Bytes
    starts: Int64s
    ends: Int64s
    counts: Int64s  # of records, at least 1 each


def record_starts(regions: Regions, data: Uint8s) -> Int64s:
    """Find where the records begin, in order. `data` is the buffer.

    Raises UnprovenError if a batch's records are not as many as its count, or do not fill it.
    """
    if (regions.counts < 1).any() or (
        regions.counts * MIN_RECORD_BYTES > regions.ends - regions.starts
    ).any():
        raise UnprovenError  # so no claimed count allocates anything
    return _Chain(regions, data).follow()


class _Chain:
    def __init__(self, regions: Regions, data: Uint8s) -> None:
        self._regions = regions
        self._data = data
        self._first = np.cumsum(regions.counts) - regions.counts  # index of a batch's first record
        self._found = np.empty(int(regions.counts.sum()), np.int64)
        self._at = regions.starts.copy()
        self._done = np.zeros(len(regions.counts), np.int64)  # records found of each batch
        self._open = np.arange(len(regions.counts))

    def follow(self) -> Int64s:
        steps = _FIRST_STEPS
        while len(self._open):
            if steps == 1 and len(self._open) < _FEW_BATCHES:
                self._walk_rest()
                break
            before = int(self._done.sum())
            hoped = self._leap(steps)
            got = int(self._done.sum()) - before
            if 2 * got < hoped:
                steps = max(1, steps // 4)
            elif steps > 1:  # once sizes differ, they go on differing
                steps = min(_MAX_STEPS, 4 * steps)
            self._close()
        return self._found

    def _leap(self, steps: int) -> int:
        """Go on by up to `steps` records of the present one's size in each open batch.

        Returns how many were hoped for.
        """
        chosen = self._open
        at = self._at[chosen]
        length, body = read_unsigned(self._data, at)
        size = (length >> 1) + body - at
        left = self._regions.counts[chosen] - self._done[chosen]
        if steps == 1:
            self._found[self._first[chosen] + self._done[chosen]] = at
            self._at[chosen] = at + size
            self._done[chosen] += 1
            return len(chosen)
        room = (self._regions.ends[chosen] - at) // size
        hoped = np.clip(np.minimum(left, room), 1, steps)
        total = int(hoped.sum())
        base = np.cumsum(hoped) - hoped
        step = np.arange(total) - np.repeat(base, hoped)
        places = np.repeat(at, hoped) + step * np.repeat(size, hoped)
        same = self._tells_length(places, at, body - at, hoped)
        # In each batch the run of records that tell the same size; what comes after it has a place
        # that is right too, since the one before gave it.
        wrong = np.where(same, total, np.arange(total))
        first_wrong = np.minimum.reduceat(wrong, base)
        good = np.minimum(first_wrong - base, hoped)
        taken = step < np.repeat(good, hoped)
        target = np.repeat(self._first[chosen] + self._done[chosen], hoped) + step
        self._found[target[taken]] = places[taken]
        self._at[chosen] = at + size * good
        self._done[chosen] += good
        return total

    def _tells_length(self, places: Int64s, at: Int64s, size: Int64s, hoped: Int64s) -> Bools:
        """True for each place that holds the same varint, of `size` bytes, as stands at `at`."""
        take = self._data.take
        same: Bools = take(places) == np.repeat(take(at), hoped)
        for index in range(1, int(size.max())):
            byte = np.repeat(take(at + index, mode="clip"), hoped)
            equal = take(places + index, mode="clip") == byte
            same &= equal | np.repeat(size <= index, hoped)
        return same

    def _close(self) -> None:
        """Put aside the batches whose records are all found."""
        chosen = self._open
        at, end = self._at[chosen], self._regions.ends[chosen]
        is_done = self._done[chosen] == self._regions.counts[chosen]
        if (at > end).any() or (at != end)[is_done].any():
            raise UnprovenError
        self._open = chosen[~is_done]

    def _walk_rest(self) -> None:
        buffer = self._regions.buffer
        for index in self._open.tolist():
            at, end = int(self._at[index]), int(self._regions.ends[index])
            left = int(self._regions.counts[index] - self._done[index])
            places = _walk(buffer, at, end, left)
            first = int(self._first[index] + self._done[index])
            self._found[first : first + left] = places


def _walk(buffer: Bytes, at: int, end: int, count: int) -> list[int]:
    """Where `count` records from `at` on begin; lengths of one and two bytes are read in place."""
    places: list[int] = []
    append = places.append
    try:
        for _ in range(count):
            append(at)
            length = buffer[at]
            if length < 0x80:
                at += (length >> 1) + 1
                continue
            high = buffer[at + 1]
            if high < 0x80:
                at += (length >> 1 & 0x3F | high << 6) + 2
            else:
                length, body = read_varint(buffer, at)
                at = body + length
    except IndexError as error:
        raise UnprovenError from error
    if at != end:
        raise UnprovenError
    return places
