"""Java's String.hashCode: it says which partition of an internal topic keeps a key, and in which
order Java writes what it has in a hash table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar
from uuid import UUID

_PLACES = 16  # of a new table
_FULL = 0.75
_INT, _LONG = 0xFFFFFFFF, 0xFFFFFFFF_FFFFFFFF
_GOLDEN = -7046029254386353131  # 2 to the 64th by the golden ratio

Key = TypeVar("Key")


def java_hash(text: str) -> int:
    """String.hashCode, signed; over UTF-16 code units.

    The smallest int counts as 0, as Kafka has it.
    """
    value = 0
    units = java_order(text)
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return value - 0x1_0000_0000 if value > 0x7FFFFFFF else value


def uuid_hash(value: UUID) -> int:
    """Return the hashCode of org.apache.kafka.common.Uuid, unsigned."""
    halves = value.int >> 64 ^ value.int
    return (halves >> 32 ^ halves) & _INT


def java_order(text: str) -> bytes:
    """The key by which Java sorts texts: by UTF-16 code units, in which the letters beyond 16 bits
    come before some of those within.
    """
    return text.encode("utf-16-be", "surrogatepass")


def java_sorted(texts: Collection[str]) -> list[str]:
    """Texts in the order of `java_order`, in which ASCII stands as in Python's.

    >>> java_sorted(["b", "a"]), java_sorted(["\ufb01", "\U0001f600"])
    (['a', 'b'], ['\U0001f600', '\ufb01'])
    """
    return sorted(texts, key=None if all(map(str.isascii, texts)) else java_order)


def hash_table_order(names: Iterable[str]) -> list[str]:
    """The order in which java.util.Properties gives its names, given the order of their coming.

    >>> hash_table_order(["SCRAM-SHA-256", "SCRAM-SHA-512"])
    ['SCRAM-SHA-512', 'SCRAM-SHA-256']
    """
    come = list(names)
    places = _PLACES
    while len(come) >= places * _FULL:
        places *= 2
    return _by_place(come, java_hash, places)


def hash_map_order(keys: Iterable[Key], capacity: int, hash_of: Callable[[Key], int]) -> list[Key]:
    """The order in which a java.util.HashMap gives its keys, given the order of their coming and
    the capacity that it was made with. (Nine keys in one place of a small table make Java take a
    larger one, which is not followed here.)

    >>> hash_map_order(["ip", "user"], 2, java_hash), hash_map_order(["ip", "user"], 16, java_hash)
    (['user', 'ip'], ['ip', 'user'])
    """
    come = list(keys)
    places = 1
    while places < capacity or len(come) > int(places * _FULL):
        places *= 2
    return _by_place(come, hash_of, places)


def copied_set_order(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """The order of a java.util.HashSet that was made from a collection in this order.

    >>> copied_set_order([1, 40, 35, 16], int)
    [16, 1, 35, 40]
    """
    come = list(keys)
    return hash_map_order(come, max(int(len(come) / _FULL) + 1, _PLACES), hash_of)


def timeline_map_order(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """The order in which Kafka's TimelineHashMap gives its keys, given the order of their coming.
    One that was larger once may have another: it does not shrink.

    >>> timeline_map_order(["a", "b", "c", "d"], java_hash)
    ['c', 'b', 'd', 'a']
    """
    latest_first = list(keys)[::-1]
    bits = 1
    while len(latest_first) * _FULL > 1 << bits:
        bits += 1

    def place(key: Key) -> int:
        return (hash_of(key) * _GOLDEN & _LONG) >> 64 - bits

    return sorted(latest_first, key=place)


def _by_place(come: list[Key], hash_of: Callable[[Key], int], places: int) -> list[Key]:
    last = places - 1

    def place(key: Key) -> int:
        number = hash_of(key) & _INT
        return (number ^ number >> 16) & last

    return sorted(come, key=place)
