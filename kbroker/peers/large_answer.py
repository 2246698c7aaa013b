"""LargeAnswer: memory into which one large answer after another is received.

A follower that catches up gets answers of megabytes, all about as large. Fresh memory for each
would cost more than receiving them: the system gives it page by page, and takes it back.

Law: memory grows as bytes come and not because of a size that was claimed. It is used again only
when nobody views it any more, which Python itself shows: a bytearray that is viewed cannot be
resized. So an answer stays what it was for as long as anybody has a piece of it.
"""

from __future__ import annotations

_CLAIM_BYTES_MAX = 2 * 1024 * 1024  # taken for an answer before as much of it has come
_KEPT_BYTES_MAX = 16 * 1024 * 1024  # an answer to a follower has 10 MiB, if no batch is larger


class LargeAnswer:
    """One answer at a time.

    >>> answer = LargeAnswer()
    >>> answer.begin(4, b"ab")
    >>> answer.room()[:2] = b"cd"
    >>> bytes(answer.received(2))
    b'abcd'
    """

    __slots__ = ("_buffer", "_filled", "_size", "is_coming")

    def __init__(self) -> None:
        self._buffer = bytearray()  # the last answer's, until the next one
        self._size = 0  # of the whole answer
        self._filled = 0  # received so far
        self.is_coming = False

    def begin(self, size: int, received: bytes | memoryview) -> None:
        """An answer of `size` bytes begins with these, which are not all of it."""
        if not _is_free(self._buffer):
            self._buffer = bytearray()
        missing = min(size, max(_CLAIM_BYTES_MAX, len(received))) - len(self._buffer)
        if missing > 0:
            self._buffer = bytearray(len(self._buffer) + missing)  # nothing of it is wanted
        self._buffer[: len(received)] = received
        self._size, self._filled = size, len(received)
        self.is_coming = True

    def room(self) -> memoryview:
        """The memory for the next bytes, no further than the end of the answer."""
        buffer = self._buffer
        if self._filled == len(buffer):
            buffer.extend(bytes(min(len(buffer), self._size - len(buffer))))
        return memoryview(buffer)[self._filled : self._size]

    def received(self, count: int) -> memoryview | None:
        """`count` more bytes have come; returns the answer once it is whole."""
        self._filled += count
        if self._filled < self._size:
            return None
        self.is_coming = False
        answer = memoryview(self._buffer)[: self._size]
        if len(self._buffer) > _KEPT_BYTES_MAX:
            self._buffer = bytearray()
        return answer

    def drop(self) -> None:
        """Give the memory back: no large answer is coming, or none is needed."""
        self._buffer = bytearray()
        self.is_coming = False


def _is_free(buffer: bytearray) -> bool:
    """Whether nobody views it. The memory is not changed or moved."""
    if not buffer:
        return True
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return False
    return True
