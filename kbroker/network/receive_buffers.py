"""Receive buffers: where frames are collected, and how much memory that may take in all.

A connection holds a buffer only while bytes of an unanswered frame are in it, so idle connections
cost none. Buffers have sizes of powers of two from `BASE_BYTES` on; those up to
`LARGEST_KEPT_BYTES` are used again.

Law: nothing is allocated because a client *claims* a size, only because bytes arrived (buffers
double). What is held beyond the base size is bounded by `queued.max.request.bytes`; when that is
reached, growing waits, except for the connection that has waited longest, so that there is always
one frame that can be completed (KIP-72 bounds the same memory by claimed sizes).

Owned by the event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

BASE_BYTES = 32 * 1024  # holds a Produce request with one batch of the clients' default size
LARGEST_KEPT_BYTES = 2 * 1024 * 1024
_KEPT_BYTES_MAX = 8 * 1024 * 1024


class ReceiveBuffers:
    """A pool of bytearrays with a budget.

    >>> buffers = ReceiveBuffers(budget_bytes=1 << 20)
    >>> len(buffers.take("connection", 40_000) or b"")
    65536
    """

    __slots__ = ("_budget_bytes", "_free", "_held", "_kept_bytes", "_waiters", "held_bytes")

    def __init__(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._free: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._held: dict[Hashable, int] = {}  # owner -> bytes above the base size; oldest first
        self._waiters: deque[Callable[[], None]] = deque()
        self.held_bytes = 0

    def take(self, owner: Hashable, size_bytes: int) -> bytearray | None:
        """A buffer of at least `size_bytes` for `owner`; None when the budget says: wait.

        Buffers of the base size are always given. What `owner` held before stays counted until
        `put_back`, but a larger one replaces it in the count: an owner has one buffer.
        """
        if size_bytes <= BASE_BYTES:
            free = self._free.get(BASE_BYTES)
            if free:
                self._kept_bytes -= BASE_BYTES
                return free.pop()
            return bytearray(BASE_BYTES)
        size = 1 << (size_bytes - 1).bit_length()
        if not self._reserve(owner, size):
            return None
        free = self._free.get(size)
        if free:
            self._kept_bytes -= size
            return free.pop()
        return bytearray(size)

    def put_back(self, owner: Hashable, buffer: bytearray) -> None:
        """Return the buffer of `owner` for the next one. No view of it may be in use any more."""
        size = len(buffer)
        self.recycle(buffer)
        if size > BASE_BYTES:
            self.release(owner)

    def recycle(self, buffer: bytearray) -> None:
        """Keep the memory of a replaced buffer for others, when it is worth keeping."""
        size = len(buffer)
        if size <= LARGEST_KEPT_BYTES and self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept_bytes += size
            self._free.setdefault(size, []).append(buffer)

    def release(self, owner: Hashable) -> None:
        """Forget what `owner` held (its buffer was dropped), and let those who wait try again."""
        held = self._held.pop(owner, 0)
        if not held:
            return
        self.held_bytes -= held
        for _ in range(len(self._waiters)):
            self._waiters.popleft()()

    def wait(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when memory was released."""
        self._waiters.append(callback)

    def trim(self) -> None:
        """Give memory of unused large buffers back to the system; for the periodic sweep."""
        for size, free in self._free.items():
            keep = len(free) // 2
            self._kept_bytes -= size * (len(free) - keep)
            del free[keep:]

    def _reserve(self, owner: Hashable, size: int) -> bool:
        before = self._held.get(owner, 0)
        if self.held_bytes - before + size > self._budget_bytes and self._held:
            oldest = next(iter(self._held))
            if oldest != owner:
                return False
        self._held[owner] = size
        self.held_bytes += size - before
        return True
