"""Rows of records, and the bytes read back from them: text if the bytes are UTF-8.

Law: `bytes_of` returns the bytes that `text_of` was given, also null, empty and binary ones, so
that printed rows can be written to a topic again unchanged.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any

RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
_BINARY = "base64"


def text_of(value: bytes | None) -> str | dict[str, str] | None:
    """Return UTF-8 as text, and other bytes as {"base64": ...}, so that nothing is lost."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_BINARY: base64.b64encode(value).decode()}


def bytes_of(value: Any) -> bytes | None:
    """Return the bytes that `text_of` made this of. ValueError for a value it never makes."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == [_BINARY] and isinstance(value[_BINARY], str):
        try:
            return base64.b64decode(value[_BINARY], validate=True)
        except binascii.Error as error:
            raise ValueError(f"its base64 is broken: {error}") from error
    raise ValueError('it is neither text nor null nor {"base64": "..."}')


def headers_of(headers: Iterable[tuple[str, bytes | None]]) -> list[list[Any]]:
    """Return headers as [name, value] pairs, in their order."""
    return [[name, text_of(value)] for name, value in headers]


def json_of(value: bytes | None) -> str:
    """Return what `json_text(text_of(value))` returns, in a third of the time."""
    if value is None:
        return "null"
    try:
        return encode_basestring(value.decode())
    except UnicodeDecodeError:
        return json.dumps(text_of(value))


def json_text(value: Any, indent: int | None = None) -> str:
    """Return a value in JSON; halves of a surrogate pair, which UTF-8 lacks, are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return json.dumps(value, indent=indent)
    return text
