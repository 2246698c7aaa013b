"""Chooses the partition of a record by its key, as Java's clients do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from struct import pack, unpack, unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_WORD: Final = 0xFFFF_FFFF
_POSITIVE: Final = 0x7FFF_FFFF
_LANE: Final = b"\1\0\0\0\0\0\0\0"
_FEW: Final = 12  # keys that are hashed sooner one by one


def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & _POSITIVE) % count


def partitions_of(keys: Sequence[bytes], count: int) -> list[int]:
    """Return the partition of each key; many keys take a fraction of the time each."""
    sizes = set(map(len, keys))
    if len(sizes) == 1 and len(keys) > _FEW and 2 * len(set(keys)) > len(keys):
        return [value % count for value in _hashes(sizes.pop(), keys)]
    by_size: defaultdict[int, dict[bytes, int]] = defaultdict(dict)
    for key in keys:
        by_size[len(key)][key] = 0
    for size, found in by_size.items():
        if len(found) <= _FEW:
            for key in found:
                found[key] = partition_of(key, count)
        else:
            values = _hashes(size, list(found))
            found.update(zip(found, [value % count for value in values], strict=True))
    return [by_size[len(key)][key] for key in keys]


def murmur2(data: bytes) -> int:
    """Return MurmurHash2 with 32 bits and Kafka's seed, unsigned."""
    size = len(data)
    value = _SEED ^ size
    for word in unpack_from(f"<{size // 4}I", data):
        word = word * _MIX & _WORD
        value = value * _MIX & _WORD ^ (word ^ word >> 24) * _MIX & _WORD
    rest = data[size & ~3 :]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MIX & _WORD
    value = (value ^ value >> 13) * _MIX & _WORD
    return value ^ value >> 15


def _hashes(size: int, keys: Sequence[bytes]) -> tuple[int, ...]:
    """Return `murmur2` without its sign for all keys at once, which have one size.

    One large number holds a word of each key, each in a lane of 64 bits: a product of two words
    fits into a lane, and what spills over from a neighbour is masked away.
    """
    count = len(keys)
    ones = int.from_bytes(_LANE * count, "little")
    mask = ones * _WORD
    padding = bytes(-size % 4)
    stride = (size + 3) // 4
    words = unpack(f"<{stride * count}I", padding.join([*keys, b""]))
    value = ones * (_SEED ^ size)
    for number in range(stride):
        word = int.from_bytes(pack(f"<{count}Q", *words[number::stride]), "little")
        if number < size // 4:
            word = word * _MIX & mask
            value = value * _MIX & mask ^ (word ^ word >> 24 & mask) * _MIX & mask
        else:
            value = (value ^ word) * _MIX & mask
    value = (value ^ value >> 13 & mask) * _MIX & mask
    value = (value ^ value >> 15 & mask) & ones * _POSITIVE
    return unpack(f"<{count}Q", value.to_bytes(8 * count, "little"))
