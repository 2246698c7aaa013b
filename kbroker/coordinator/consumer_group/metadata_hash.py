"""The hash by which a group notices that topics it subscribes to have come, gone, grown or moved.
Pure.

Law: it is that of Kafka 4.3 bit by bit (XXH3-64), as a broker of either kind goes on with a group
that the other one has left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from struct import Struct, pack
from uuid import UUID

from kbroker.java_hash import java_order, java_sorted

_MAGIC = b"\0"  # how the parts are put together: Kafka's first way
_LONG = Struct("<q").pack
_INT = Struct("<i").pack


def group_hash(topic_hashes: Mapping[str, int]) -> int:
    """The hash of all topics that a group subscribes to, by name; 0 if there is none."""
    if not topic_hashes:
        return 0
    return _hashed(b"".join(_LONG(topic_hashes[name]) for name in java_sorted(topic_hashes)))


def topic_hash(
    name: str, topic_id: UUID, partition_count: int, racks: Sequence[Collection[str]] = ()
) -> int:
    """The hash of a topic. `racks` are, for each partition, those of its replicas, one as often as
    it has replicas there, without replicas that are nowhere or in none; none at all may be given if
    no broker has a rack.
    """
    whole = topic_id.int
    parts = [_MAGIC, _half(whole >> 64), _half(whole), *_text(name), _INT(partition_count)]
    if not racks:
        parts.append(pack(f"<{partition_count}i", *range(partition_count)))
        return _hashed(b"".join(parts))
    known: dict[tuple[str, ...], bytes] = {}  # a few, for many partitions
    for partition in range(partition_count):
        of_partition = tuple(racks[partition])
        if of_partition not in known:
            known[of_partition] = _racks(of_partition)
        parts += _INT(partition), known[of_partition]
    return _hashed(b"".join(parts))


def _racks(racks: tuple[str, ...]) -> bytes:
    texts = (_text(rack) for rack in sorted(racks, key=java_order))
    return b"".join(length + text + length for text, length in texts)


def _text(text: str) -> tuple[bytes, bytes]:
    """UTF-16 and its length in code units, in the order in which they are hashed."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units, _INT(len(units) // 2)


def _half(number: int) -> bytes:
    return (number & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little")


def _hashed(data: bytes) -> int:
    unsigned = _xxh3()(data)
    return unsigned - (1 << 64) if unsigned >> 63 else unsigned


@cache
def _xxh3() -> Callable[[bytes], int]:
    """Import it for the first group: a start has no need of it."""
    from xxhash import xxh3_64_intdigest

    return xxh3_64_intdigest
