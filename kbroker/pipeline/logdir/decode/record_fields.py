"""The fields of many records at once, as arrays of numbers and of places in the buffer.

Law: the fields are those that `default_record.read_record` gives for each record, so that the fast
way never differs from the careful one; if that is not certain, UnprovenError.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from kbroker.pipeline.logdir.decode.batch_headers import Bools, Int64s
from kbroker.pipeline.logdir.decode.varint_arrays import (
    Uint8s,
    UnprovenError,
    read_signed,
    read_unsigned,
    zigzag,
)

_MAX_HEADERS: Final = 64  # of a record: each costs a round over all records


class Spans(NamedTuple):
    """Byte strings in a buffer, in rising order; a negative length is null."""

    starts: Int64s
    lengths: Int64s

    def take(self, chosen: Bools) -> Spans:
        return Spans(self.starts[chosen], self.lengths[chosen])


class HeaderFields(NamedTuple):
    """The headers of all records, flat, in order."""

    counts: Int64s  # of each record
    keys: Spans
    values: Spans

    def take(self, chosen: Bools) -> HeaderFields:
        """The headers of the chosen records."""
        flat = np.repeat(chosen, self.counts)
        return HeaderFields(self.counts[chosen], self.keys.take(flat), self.values.take(flat))


class RecordFields(NamedTuple):
    """One entry for each record. What was not asked for is not read, and not checked."""

    timestamp_delta: Int64s
    offset_delta: Int64s
    key: Spans | None
    value: Spans | None
    headers: HeaderFields | None  # None: no record has any

    def take(self, chosen: Bools) -> RecordFields:
        """The fields of the chosen records."""
        return RecordFields(
            self.timestamp_delta[chosen],
            self.offset_delta[chosen],
            self.key and self.key.take(chosen),
            self.value and self.value.take(chosen),
            self.headers and self.headers.take(chosen),
        )


def read_deltas(data: Uint8s, starts: Int64s, ends: Int64s) -> tuple[RecordFields, Int64s]:
    """Read times and offsets of the records at `starts`, and find where their keys begin."""
    length, body = read_unsigned(data, starts)
    if ((length & 1) != 0).any() or (body + (length >> 1) != ends).any():
        raise UnprovenError
    timestamp_delta, at = read_signed(data, body + 1)  # after the attributes
    offset_delta, at = read_unsigned(data, at)
    if (at >= ends).any():
        raise UnprovenError
    return RecordFields(timestamp_delta, zigzag(offset_delta), None, None, None), at


def read_contents(data: Uint8s, fields: RecordFields, at: Int64s, ends: Int64s) -> RecordFields:
    """Add keys, values and headers, which begin at `at`, to the fields."""
    key, at = _read_span(data, at)
    value, at = _read_span(data, at)
    counts, at = read_unsigned(data, at)
    headers = None
    if counts.any():
        headers, at = _read_headers(data, zigzag(counts), at)
    if (at != ends).any():
        raise UnprovenError
    return fields._replace(key=key, value=value, headers=headers)


def _read_span(data: Uint8s, at: Int64s) -> tuple[Spans, Int64s]:
    unsigned, start = read_unsigned(data, at)
    length = zigzag(unsigned)
    return Spans(start, length), start + np.maximum(length, 0)


def _read_headers(data: Uint8s, counts: Int64s, at: Int64s) -> tuple[HeaderFields, Int64s]:
    most = int(counts.max())
    if most > _MAX_HEADERS or int(counts.min()) < 0:
        raise UnprovenError
    first = np.cumsum(counts) - counts
    total = int(counts.sum())
    keys = Spans(np.empty(total, np.int64), np.empty(total, np.int64))
    values = Spans(np.empty(total, np.int64), np.empty(total, np.int64))
    at = at.copy()
    for index in range(most):
        chosen = np.flatnonzero(counts > index)
        target = first[chosen] + index
        places = at[chosen]
        for spans in (keys, values):
            span, places = _read_span(data, places)
            spans.starts[target], spans.lengths[target] = span
        at[chosen] = places
    if total and int(keys.lengths.min()) < 0:
        raise UnprovenError
    return HeaderFields(counts, keys, values), at
