"""Bytes that come in pieces, and are taken from the front: PieceStream.

Law: no more is held than a piece and the bytes not taken yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kbroker.record.default_record import invalid

_LEAST_MORE_BYTES: Final = 512 * 1024  # added at a time: pieces may be as small as a byte


class PieceStream:
    """Bytes from pieces. `held` has come and is not dropped yet; `at` is the position in it up to
    which it has been passed.
    """

    __slots__ = ("_passed", "_pieces", "at", "held")

    def __init__(self, pieces: Iterator[bytes | bytearray]) -> None:
        self._pieces = pieces
        self._passed = 0  # bytes that were dropped
        self.held: bytes | bytearray = next(pieces, b"")
        self.at = 0

    @property
    def passed(self) -> int:
        return self._passed + self.at

    @property
    def left(self) -> int:
        return len(self.held) - self.at

    def more(self) -> bool:
        """Drop the bytes that were passed and hold at least one more; False if none is left."""
        piece = next(self._pieces, None)
        if piece is None:
            return False
        held = self.held if isinstance(self.held, bytearray) else bytearray(self.held)
        del held[: self.at]
        self._passed += self.at
        self.at = 0
        self.held = held
        enough = len(held) + _LEAST_MORE_BYTES
        while piece is not None:
            held += piece
            piece = next(self._pieces, None) if len(held) < enough else None
        return True

    def take(self, size_bytes: int) -> Iterator[bytes]:
        """Take so many bytes, in pieces. KafkaError(INVALID_RECORD) if there are fewer."""
        while size_bytes > self.left:
            size_bytes -= self.left
            yield bytes(self.held[self.at :])
            self.at = len(self.held)
            if not self.more():
                invalid("record cut short")
        yield bytes(self.held[self.at : self.at + size_bytes])
        self.at += size_bytes

    def skip(self, size_bytes: int) -> None:
        """Skip this many bytes. KafkaError(INVALID_RECORD) if there are fewer."""
        while size_bytes > self.left:
            size_bytes -= self.left
            self.at = len(self.held)
            if not self.more():
                invalid("record cut short")
        self.at += size_bytes
