"""Java's String.hashCode: it says which partition of an internal topic keeps a key."""

from __future__ import annotations


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
