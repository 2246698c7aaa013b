"""Keys of a log and the last offset of each, in memory that is bounded and counted.

Law: a key is never forgotten and its offset never moves back, because the cleaner removes the
records of the key below it. Keys are not kept, only 16 bytes of their BLAKE2b hash. Everything is
in three flat tables and a table of 4-byte slots that point into them: 38 bytes a key at the highest
load, where Kafka's SkimpyOffsetMap has 27 and a dict of digests 170. The tables grow with the keys.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from struct import Struct

_HASH_BYTES = 16
_ENTRY_BYTES = 26  # two halves of the hash, offset; arrays grow by a sixteenth more than they need
_SLOT_BYTES = 4
_FIRST_SLOTS = 1 << 10
_halves = Struct("=qq").unpack


class OffsetMap:
    """Last offsets by key. Owned by one cleaner."""

    def __init__(self, memory_bytes: int, load_factor: float = 0.9) -> None:
        """`memory_bytes` bounds all tables together, `load_factor` how full they may get."""
        self._slot_limit = _slots_within(memory_bytes)
        room = (memory_bytes - self._slot_limit * _SLOT_BYTES) // _ENTRY_BYTES - 1
        # Above three quarters, probing would cost more than another round of cleaning.
        bound = min(room, self._slot_limit * 3 // 4)
        self.max_entries = max(0, int(bound * min(load_factor, 1.0)))
        self._first = array("q")
        self._second = array("q")
        self._offsets = array("q")
        self._slots = array("I")
        self._empty_hash = blake2b(digest_size=_HASH_BYTES)
        self.clear()

    def __len__(self) -> int:
        return self._count

    @property
    def used_bytes(self) -> int:
        return len(self._slots) * _SLOT_BYTES + (self._count + 1) * _ENTRY_BYTES

    @property
    def utilization(self) -> float:
        return self._count / self.max_entries if self.max_entries else 1.0

    def clear(self) -> None:
        """Forget all keys and give their memory back."""
        # Entry 0 is nobody's: a slot with 0 is free.
        self._first, self._second, self._offsets = (array("q", [0]) for _ in range(3))
        self._slots = _new_slots(min(_FIRST_SLOTS, self._slot_limit))
        self._count = 0
        self.latest_offset = -1  # the log has been taken into account up to here, inclusive

    def put(self, entries: Iterable[tuple[bytes, int]]) -> bool:
        """Note keys with their offsets, which rise; False when there is no room for one of them,
        which is left out with all that follow.
        """
        first, second, offsets, slots = self._first, self._second, self._offsets, self._slots
        mask, grow_at = len(slots) - 1, self._grow_at(len(slots))
        empty_hash, halves, count = self._empty_hash, _halves, self._count
        for key, offset in entries:
            state = empty_hash.copy()
            state.update(key)
            high, low = halves(state.digest())
            probe = high & mask
            while entry := slots[probe]:
                if first[entry] == high and second[entry] == low:
                    break
                probe = probe + 1 & mask
            else:
                if count >= grow_at:
                    self._count = count
                    if count >= self.max_entries:
                        return False
                    slots = self._grow()
                    mask, grow_at = len(slots) - 1, self._grow_at(len(slots))
                    probe = self._free_slot(high, mask)
                count += 1
                slots[probe] = count
                first.append(high)
                second.append(low)
                offsets.append(offset)
                continue
            offsets[entry] = offset
        self._count = count
        return True

    def latest(self, keys: Iterable[bytes]) -> list[int]:
        """The last offset of each key, -1 for one that was not put in."""
        first, second, offsets, slots = self._first, self._second, self._offsets, self._slots
        mask, empty_hash, halves = len(slots) - 1, self._empty_hash, _halves
        found = []
        for key in keys:
            state = empty_hash.copy()
            state.update(key)
            high, low = halves(state.digest())
            probe = high & mask
            while entry := slots[probe]:
                if first[entry] == high and second[entry] == low:
                    found.append(offsets[entry])
                    break
                probe = probe + 1 & mask
            else:
                found.append(-1)
        return found

    def _grow_at(self, slot_count: int) -> int:
        return min(self.max_entries, slot_count * 3 // 4)

    def _grow(self) -> array[int]:
        slots = self._slots = _new_slots(2 * len(self._slots))
        mask = len(slots) - 1
        for entry in range(1, self._count + 1):
            slots[self._free_slot(self._first[entry], mask)] = entry
        return slots

    def _free_slot(self, high: int, mask: int) -> int:
        slots = self._slots
        probe = high & mask
        while slots[probe]:
            probe = probe + 1 & mask
        return probe


def _slots_within(memory_bytes: int) -> int:
    """A power of two, so that slots take at most a quarter of the memory."""
    slots = 16
    while slots * 2 * _SLOT_BYTES <= memory_bytes // 4:
        slots *= 2
    return slots


def _new_slots(count: int) -> array[int]:
    return array("I", [0]) * count
