"""Java's String.hashCode: it says which partition of an internal topic keeps a key, and in which
order Java writes what it has in a hash table.
"""

from __future__ import annotations

from collections.abc import Iterable

_PLACES = 16  # of a new table
_FULL = 0.75


def java_hash(text: str) -> int:
    """String.hashCode, signed; over UTF-16 code units.

    The smallest int counts as 0, as Kafka has it.
    """
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    if value == 0x80000000:
        return 0
    return value - 0x1_0000_0000 if value > 0x7FFFFFFF else value


def hash_table_order(names: Iterable[str]) -> list[str]:
    """The order in which java.util.Properties gives its names, given the order of their coming.

    >>> hash_table_order(["SCRAM-SHA-256", "SCRAM-SHA-512"])
    ['SCRAM-SHA-512', 'SCRAM-SHA-256']
    """
    come = list(names)
    places = _PLACES
    while len(come) >= places * _FULL:
        places *= 2
    return sorted(come, key=lambda name: _spread(java_hash(name)) & (places - 1))


def hash_map_order(names: Iterable[str], capacity: int) -> list[str]:
    """The order in which a java.util.HashMap gives its keys, given the order of their coming and
    the capacity that it was made with.

    >>> hash_map_order(["ip", "user"], 2), hash_map_order(["ip", "user"], 16)
    (['user', 'ip'], ['ip', 'user'])
    """
    come = list(names)
    places = 1
    while places < capacity or len(come) > int(places * _FULL):
        places *= 2
    return sorted(come, key=lambda name: _spread(java_hash(name)) & (places - 1))


def _spread(number: int) -> int:
    unsigned = number & 0xFFFFFFFF
    return unsigned ^ unsigned >> 16
