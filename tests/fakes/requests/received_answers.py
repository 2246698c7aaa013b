"""Answers as clients receive them: what handlers have written beforehand is read back."""

from __future__ import annotations

from typing import TypeVar

from kbroker.protocol.codec import decode
from kbroker.protocol.part_encoder import encode_runs
from kbroker.protocol.schema import Message

MessageT = TypeVar("MessageT", bound=Message)


def received(answer: MessageT, version: int) -> MessageT:
    """The same answer from its bytes."""
    data = b"".join(bytes(piece) for piece in encode_runs(answer, version, b""))  # type: ignore[arg-type]
    response, end = decode(type(answer), version, data)
    assert end == len(data)
    return response
