"""Varints at many places of a buffer at once.

Law: an answer is what `default_record.read_varint` gives at each place, or UnprovenError, so that
the fast way never differs from the careful one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kbroker.pipeline.logdir.decode.batch_headers import Int64s

Uint8s = npt.NDArray[np.uint8]

_MORE: Final = 0x80
_BITS: Final = 0x7F
_LONG_BYTES: Final = 9  # 63 bits: what an int64 holds; the tenth byte is for the slow way
INT_BYTES: Final = 4  # no honest length or delta needs a fifth


class UnprovenError(Exception):
    """The fast way does not vouch for these bytes; the slow way says what they are."""


def read_unsigned(data: Uint8s, at: Int64s, max_bytes: int = INT_BYTES) -> tuple[Int64s, Int64s]:
    """The varints at these places before zigzag, and the places after them."""
    try:
        first = data.take(at)
    except IndexError as error:
        raise UnprovenError from error
    values = first.astype(np.int64)
    after = at + 1
    goes_on = first >= _MORE
    longer: Int64s | None = np.flatnonzero(goes_on)
    assert longer is not None
    if not len(longer):
        return values, after
    if len(longer) == len(at):
        longer = None  # no picking if all go on, as lengths of like values do
        values &= _BITS
    else:
        values[longer] &= _BITS
    return _read_rest(data, values, after, longer, max_bytes)


def zigzag(unsigned: Int64s) -> Int64s:
    """The signed numbers that varints encode."""
    signed: Int64s = (unsigned >> 1) ^ -(unsigned & 1)
    return signed


def read_signed(data: Uint8s, at: Int64s) -> tuple[Int64s, Int64s]:
    """Zigzag varints of up to 9 bytes at these places, and the places after them."""
    values, after = read_unsigned(data, at, _LONG_BYTES)
    return zigzag(values), after


def _read_rest(
    data: Uint8s, values: Int64s, after: Int64s, longer: Int64s | None, max_bytes: int
) -> tuple[Int64s, Int64s]:
    """The bytes from the second on of the varints `longer` (None: of all)."""
    for shift in range(7, 7 * max_bytes, 7):
        places = after if longer is None else after[longer]
        try:
            byte = data.take(places)
        except IndexError as error:
            raise UnprovenError from error
        part = (byte & _BITS).astype(np.int64) << shift
        goes_on = np.flatnonzero(byte >= _MORE)
        if longer is None:
            values |= part
            after = after + 1
            if len(goes_on) < len(places):
                longer = goes_on
        else:
            values[longer] |= part
            after[longer] += 1
            longer = longer[goes_on]
        if longer is not None and not len(longer):
            return values, after
    raise UnprovenError
