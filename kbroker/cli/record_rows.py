"""How records are printed: one row per record, text where the bytes are UTF-8."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")


def text_of(value: bytes | None) -> str | dict[str, str] | None:
    """UTF-8 as text; other bytes as {"base64": ...}, so that nothing is changed unseen."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def headers_of(headers: Iterable[tuple[str, bytes | None]]) -> list[list[Any]]:
    """Headers as [name, value] pairs, in their order."""
    return [[name, text_of(value)] for name, value in headers]
