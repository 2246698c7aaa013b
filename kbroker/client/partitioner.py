"""Which partition a record goes to: by its key as Java's clients choose, else in turn."""

from __future__ import annotations

from functools import lru_cache
from struct import unpack_from
from typing import Final

_SEED: Final = 0x9747B28C
_MIX: Final = 0x5BD1E995
_WORD: Final = 0xFFFF_FFFF


@lru_cache(maxsize=65_536)  # keys come again and again
def partition_of(key: bytes, count: int) -> int:
    """The partition of a key, of so many."""
    return (murmur2(key) & 0x7FFF_FFFF) % count


def murmur2(data: bytes) -> int:
    """MurmurHash2 with 32 bits and Kafka's seed, unsigned."""
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
