"""Decodes Avro data by a given schema, with the package fastavro, which is an extra.

The prefix of Confluent's serializers, a zero byte and the four bytes of a schema's id, is left out
if a datum follows it.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

_FRAME_BYTES = 5


def avro_decoder(schema_text: bytes) -> Callable[[bytes], Any]:
    """Return a decoder for a schema in JSON. ValueError if it is none."""
    try:
        schema = fastavro.parse_schema(json.loads(schema_text))
    except Exception as error:  # the library has many kinds
        raise ValueError(f"no Avro schema: {error}") from error

    def decode(data: bytes) -> Any:
        if data[:1] == b"\0" and len(data) >= _FRAME_BYTES:
            try:
                return _datum(schema, data[_FRAME_BYTES:])
            except ValueError:
                pass  # a datum may begin with a zero itself
        return _datum(schema, data)

    return decode


def _datum(schema: Any, data: bytes) -> Any:
    stream = io.BytesIO(data)
    try:
        found = fastavro.schemaless_reader(stream, schema, None)
    except Exception as error:  # what it raises depends on the schema
        raise ValueError(f"not of the schema: {error}") from error
    left = len(data) - stream.tell()
    if left:
        raise ValueError(f"{left} bytes after the datum")
    return _plain(found)


def _plain(found: Any) -> Any:
    """Return a value that JSON can hold: bytes as base64, dates and decimals as text."""
    if isinstance(found, dict):
        return {name: _plain(value) for name, value in found.items()}
    if isinstance(found, list):
        return [_plain(value) for value in found]
    if isinstance(found, bytes):
        return {"base64": base64.b64encode(found).decode()}
    if found is None or isinstance(found, str | int | float):
        return found
    return str(found)
