"""Receive buffers: memory in which frames are collected, and the bound of all of it.

A connection holds a buffer only while bytes of an unanswered frame are in it, so idle connections
cost none. Buffers have sizes of powers of two from `BASE_BYTES` to `LARGEST_KEPT_BYTES`, and are
used again. A larger frame gets a mapping of its own, to which the system gives memory as bytes
arrive: nothing is copied while it grows, and all of it goes back at the end.

Law: nothing is taken because a client *claims* a size, only because bytes arrived. The bytes held
beyond the base size are bounded by `queued.max.request.bytes` (KIP-72 bounds the same memory by
claimed sizes): when that is reached, growing waits in line, except for the connection that has held
longest, so that there is always one frame that can be completed (`MemoryRoom`). A quarter more is
for Produce requests of ordinary size, and for what brokers order of each other, alone: who fills
the rest with large or slow ones does not keep them out. A buffer in there ends where its frame
does, so that it cannot be held with another.

Owned by the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

from kbroker.memory_room import MemoryRoom, Share
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import frame_size

BASE_BYTES = 32 * 1024  # holds a Produce request with one batch of the clients' default size
LARGEST_KEPT_BYTES = 2 * 1024 * 1024
BASE_KEPT_MAX = 128  # of those of the base size, 4 MiB
_KEPT_BYTES_MAX = 4 * 1024 * 1024  # of larger ones
_STEP_BYTES = 1024 * 1024  # by which a large frame grows
_KEPT_FREE_PART = 4
_KEY = slice(4, 6)  # of the start of a frame
# Those of requests that wait for no memory once they are there.
_KEYS = frozenset(
    key.to_bytes(2, "big")
    for key in (
        ApiKey.PRODUCE,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.ALTER_PARTITION,
    )
)

Buffer = bytearray | memoryview
"""A bytearray that may be used again, or the part of one, or of a mapping, that may be written
to.
"""


class _Mapping(mmap):
    """Holds the room of one large frame until nobody views its bytes any more."""

    share: Share


class _Pooled(bytearray):
    """Holds its room beyond its connection's end, as long as a request looks at it."""

    __slots__ = ("shares",)
    shares: list[Share]


class ReceiveBuffers:
    """A pool of bytearrays with a budget.

    >>> buffers = ReceiveBuffers(budget_bytes=1 << 20)
    >>> len(buffers.take("connection", 40_000) or b"")
    65536
    """

    __slots__ = ("_free", "_kept_bytes", "_kept_free", "_room", "_shares", "base")

    def __init__(self, budget_bytes: int) -> None:
        # Spare ones of the base size, `BASE_KEPT_MAX` at most. Each turn of a connection takes one
        # and puts it back: a `Received` does both here by itself.
        self.base: list[bytearray] = []
        self._free: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._room = MemoryRoom(budget_bytes)
        self._kept_free = MemoryRoom(budget_bytes // _KEPT_FREE_PART)
        # By owner, above the base size; the share that one waits for comes last.
        self._shares: dict[Hashable, dict[MemoryRoom, Share]] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes held above the base size."""
        return self._room.taken_bytes + self._kept_free.taken_bytes

    @property
    def left_bytes(self) -> int:
        """Bytes that may still be held so."""
        return self._room.left_bytes + self._kept_free.left_bytes

    def is_wanted(self, owner: Hashable) -> bool:
        """Whether others wait for memory that `owner` holds."""
        return any(share.is_wanted for share in self._shares.get(owner, {}).values())

    def take(self, owner: Hashable, size_bytes: int) -> bytearray | None:
        """A buffer of at least `size_bytes`, which are `LARGEST_KEPT_BYTES` at most, for `owner`;
        None when the budget says: wait.

        Buffers of the base size are always given. What `owner` held before stays counted until
        `put_back`, but a larger one replaces it in the count: an owner has one buffer.
        """
        if size_bytes <= BASE_BYTES:
            return self.base.pop() if self.base else bytearray(BASE_BYTES)
        return self._taken(owner, size_bytes, self._room)

    def larger(
        self, owner: Hashable, buffer: Buffer, received: memoryview, hint: int
    ) -> Buffer | None:
        """A buffer in place of `owner`'s full one, with the received bytes at its front; None if
        the budget says: wait. Its size is on the way to the frame's, or to the `hint` if that is
        more.
        """
        frame_bytes = frame_size(received, 0, len(received))
        if frame_bytes > LARGEST_KEPT_BYTES:
            return self._mapped(owner, buffer, received, frame_bytes)
        size = min(max(frame_bytes, hint), 2 * len(buffer))
        larger: Buffer | None = None
        if self._kept_free not in self._shares.get(owner, ()):
            larger = self._taken(owner, size, self._room)
        if larger is None and frame_bytes > len(buffer) and bytes(received[_KEY]) in _KEYS:
            size = min(frame_bytes, size)
            larger = self._taken(owner, size, self._kept_free)
            larger = None if larger is None else memoryview(larger)[:size]
        if larger is not None:
            larger[: len(received)] = received
            self.recycle(buffer)
        return larger

    def _taken(self, owner: Hashable, size_bytes: int, room: MemoryRoom) -> bytearray | None:
        size = 1 << (size_bytes - 1).bit_length()
        if self._takes(owner, size, room) is None:
            return None
        free = self._free.get(size)
        if free:
            self._kept_bytes -= size
            return free.pop()
        return _Pooled(size)

    def _takes(self, owner: Hashable, size: int, room: MemoryRoom) -> Share | None:
        """The share with which `owner` takes so much and nothing else; None if there is no room."""
        shares = self._shares.setdefault(owner, {})
        share = shares.pop(room, None) or room.share()
        shares[room] = share
        if not share.take_now(size):
            return None
        if len(shares) > 1:
            self._shares[owner] = {room: share}
        return share

    def _mapped(
        self, owner: Hashable, buffer: Buffer, received: memoryview, frame_bytes: int
    ) -> Buffer | None:
        size = min(frame_bytes, len(received) + _STEP_BYTES)
        share = self._takes(owner, size, self._room)
        if share is None:
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
        if isinstance(buffer, memoryview) and isinstance(buffer.obj, bytearray):
            buffer = buffer.obj
        size = len(buffer)
        if size == BASE_BYTES and isinstance(buffer, bytearray):
            if len(self.base) < BASE_KEPT_MAX:
                self.base.append(buffer)
        elif isinstance(buffer, bytearray) and self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept_bytes += size
            self._free.setdefault(size, []).append(buffer)

    def release(self, owner: Hashable, viewed: Buffer | None = None) -> None:
        """Forget what `owner` held (its buffer was dropped) and waited for. What a request still
        looks at, `viewed` or a large frame, is held until nobody does any more.
        """
        shares = list(self._shares.pop(owner, {}).values())
        for share in shares:
            share.wait_no_more()
        whole = viewed.obj if isinstance(viewed, memoryview) else viewed
        if isinstance(whole, _Pooled):
            whole.shares = shares

    def wait(self, owner: Hashable, granted: Callable[[], bool]) -> None:
        """Stand in line for one more step, as `Share.wait` says."""
        *_, share = self._shares[owner].values()
        share.wait(share.size_bytes + _STEP_BYTES, granted)

    def trim(self) -> None:
        """Give memory of unused large buffers back to the system; for the periodic sweep."""
        del self.base[len(self.base) // 2 :]
        for size, free in self._free.items():
            keep = len(free) // 2
            self._kept_bytes -= size * (len(free) - keep)
            del free[keep:]
