"""Common ground of the codecs: the size of the pieces they unpack to, blocks of pieces, and their
refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from kbroker.errors import ErrorCode, KafkaError

PIECE_BYTES: Final = 1024 * 1024  # unpacked in one go: so long a thread keeps others waiting


def broken(reason: object) -> NoReturn:
    raise KafkaError(
        ErrorCode.INVALID_RECORD, f"compressed records cannot be read: {reason}"
    ) from (reason if isinstance(reason, Exception) else None)


def blocks(
    pieces: Iterable[bytes | bytearray | memoryview], size_bytes: int
) -> Iterator[memoryview]:
    """The same bytes in other pieces: all blocks but the last have this size."""
    rest = bytearray()
    for piece in pieces:
        view = memoryview(piece)
        start = 0
        if rest:
            start = size_bytes - len(rest)
            rest += view[:start]
            if len(rest) < size_bytes:
                continue
            yield memoryview(rest)
        end = start + max(len(view) - start, 0) // size_bytes * size_bytes
        for at in range(start, end, size_bytes):
            yield view[at : at + size_bytes]
        rest = bytearray(view[end:])
    if rest:
        yield memoryview(rest)
