"""What the codecs have in common: the size of the pieces they unpack to, and how they refuse."""

from __future__ import annotations

from typing import Final, NoReturn

from kbroker.errors import ErrorCode, KafkaError

PIECE_BYTES: Final = 1024 * 1024  # unpacked in one go: so long a thread keeps others waiting


def broken(reason: object) -> NoReturn:
    """Refuse a payload that cannot be read: INVALID_RECORD."""
    raise KafkaError(
        ErrorCode.INVALID_RECORD, f"compressed records cannot be read: {reason}"
    ) from (reason if isinstance(reason, Exception) else None)
