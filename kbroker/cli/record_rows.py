"""How records are printed: one row per record, text where the bytes are UTF-8."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
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


def json_of(value: bytes | None) -> str:
    """What `json.dumps` makes of `text_of`, in a third of the time."""
    if value is None:
        return "null"
    try:
        return encode_basestring_ascii(value.decode())
    except UnicodeDecodeError:
        return json.dumps(text_of(value))
