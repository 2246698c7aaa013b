"""Receive buffers: where frames are collected, and how much memory that may take in all.

A connection holds a buffer only while bytes of an unanswered frame are in it, so idle connections
cost none. Buffers have sizes of powers of two from `BASE_BYTES` to `LARGEST_KEPT_BYTES`, and are
used again. A larger frame gets a mapping of its own, to which the system gives memory as bytes
arrive: nothing is copied while it grows, and all of it goes back at the end.

Law: nothing is taken because a client *claims* a size, only because bytes arrived. What is held
beyond the base size is bounded by `queued.max.request.bytes` (KIP-72 bounds the same memory by
claimed sizes): when that is reached, growing waits in line, except for the connection that has held
longest, so that there is always one frame that can be completed (`MemoryRoom`).

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from kbroker.memory_room import MemoryRoom, Share

BASE_BYTES = 32 * 1024  # holds a Produce request with one batch of the clients' default size
LARGEST_KEPT_BYTES = 2 * 1024 * 1024
_KEPT_BYTES_MAX = 8 * 1024 * 1024
_STEP_BYTES = 1024 * 1024  # by which a large frame grows

Buffer = bytearray | memoryview
"""A bytearray that may be used again, or the part of a mapping that may be written to."""


class _Mapping(mmap):
    """Holds the room of one large frame until nobody looks at its bytes any more."""

    share: Share


class ReceiveBuffers:
    """A pool of bytearrays with a budget.

    >>> buffers = ReceiveBuffers(budget_bytes=1 << 20)
    >>> len(buffers.take("connection", 40_000) or b"")
    65536
    """

    __slots__ = ("_free", "_kept_bytes", "_room", "_shares")

    def __init__(self, budget_bytes: int) -> None:
        self._free: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._room = MemoryRoom(budget_bytes)
        self._shares: dict[Hashable, Share] = {}  # of owners, above the base size

    @property
    def held_bytes(self) -> int:
        """Bytes held above the base size."""
        return self._room.taken_bytes

    @property
    def are_wanted(self) -> bool:
        """Whether a frame waits for the memory that others hold."""
        return self._room.is_wanted

    def take(self, owner: Hashable, size_bytes: int) -> bytearray | None:
        """A buffer of at least `size_bytes`, which are `LARGEST_KEPT_BYTES` at most, for `owner`;
        None when the budget says: wait.

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
        if not self._share(owner).take_now(size):
            return None
        free = self._free.get(size)
        if free:
            self._kept_bytes -= size
            return free.pop()
        return bytearray(size)

    def larger(
        self, owner: Hashable, buffer: Buffer, received: memoryview, needed: int
    ) -> Buffer | None:
        """A buffer in place of `owner`'s full one, on the way to the size that is needed, with what
        was received at its front; None when the budget says: wait.
        """
        if needed > LARGEST_KEPT_BYTES:
            return self._mapped(owner, buffer, received, needed)
        larger = self.take(owner, min(needed, 2 * len(buffer)))
        if larger is not None:
            larger[: len(received)] = received
            self.recycle(buffer)
        return larger

    def _mapped(
        self, owner: Hashable, buffer: Buffer, received: memoryview, frame_bytes: int
    ) -> Buffer | None:
        size = min(frame_bytes, len(received) + _STEP_BYTES)
        share = self._share(owner)
        if not share.take_now(size):
            return None
        mapping = buffer.obj if isinstance(buffer, memoryview) else None
        if not isinstance(mapping, _Mapping):
            mapping = _Mapping(-1, frame_bytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
            mapping.share = share
            mapping[: len(received)] = received
            self.recycle(buffer)
        return memoryview(mapping)[:size]

    def put_back(self, owner: Hashable, buffer: Buffer) -> None:
        """Return the buffer of `owner` for the next one. No view of it may be in use any more."""
        self.recycle(buffer)
        if len(buffer) > BASE_BYTES:
            self.release(owner)

    def recycle(self, buffer: Buffer) -> None:
        """Keep the memory of a replaced buffer for others, when it is worth keeping."""
        size = len(buffer)
        if isinstance(buffer, bytearray) and self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept_bytes += size
            self._free.setdefault(size, []).append(buffer)

    def release(self, owner: Hashable) -> None:
        """Forget what `owner` held (its buffer was dropped) and waited for. A large one is held
        until nobody looks at it any more.
        """
        share = self._shares.pop(owner, None)
        if share is not None:
            share.wait_no_more()

    def wait(self, owner: Hashable, granted: Callable[[], bool]) -> None:
        """Stand in line for a step more; see `Share.wait`."""
        share = self._share(owner)
        share.wait(share.size_bytes + _STEP_BYTES, granted)

    def trim(self) -> None:
        """Give memory of unused large buffers back to the system; for the periodic sweep."""
        for size, free in self._free.items():
            keep = len(free) // 2
            self._kept_bytes -= size * (len(free) - keep)
            del free[keep:]

    def _share(self, owner: Hashable) -> Share:
        share = self._shares.get(owner)
        if share is None:
            share = self._shares[owner] = self._room.share()
        return share
