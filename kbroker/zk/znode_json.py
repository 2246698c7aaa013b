"""The JSON in znodes, as Kafka writes it, and values of the types that it takes.

Pure. A node edited by hand may hold anything; a value that does not fit Kafka's types is refused
here, before it reaches code that relies on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_2_31, _2_63 = 1 << 31, 1 << 63


class ZnodeFormatError(Exception):
    """A node whose data Kafka could not have written; the message names the path."""


def encode_json(document: Mapping[str, Any]) -> bytes:
    """A document as Kafka writes it: no spaces, keys in the order given."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def decode_json(path: str, data: bytes | None) -> dict[str, Any]:
    """The JSON object in a node. Raises ZnodeFormatError."""
    try:
        document = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise ZnodeFormatError(f"{path}: {error}") from error
    if not isinstance(document, dict):
        raise ZnodeFormatError(f"{path}: not a JSON object")
    return document


def int32(value: object) -> int:
    """A number of 32 bits. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not -_2_31 <= value < _2_31:
        raise ValueError(f"{value!r} is not a 32-bit number")
    return value


def int64(value: object) -> int:
    """A number of 64 bits. Raises ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or not -_2_63 <= value < _2_63:
        raise ValueError(f"{value!r} is not a 64-bit number")
    return value


def int32s(values: Iterable[object]) -> tuple[int, ...]:
    """Numbers of 32 bits. Raises ValueError, TypeError."""
    return tuple(int32(value) for value in values)


def text(value: object) -> str:
    """A text. Raises ValueError."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a string")
    return value
