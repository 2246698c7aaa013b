"""A bare connection to a broker, and requests put together with kio, a codec that shares nothing
with the broker.

Requests are given as plain values: a dict per struct, a sequence per array, milliseconds as int; a
field that is left out gets the default of Kafka's schema.
"""

from __future__ import annotations

import io
import socket
import struct
import types
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from compat_tests.clients.mended_schemas import response_schema

TIMEOUT_S = 15.0
CLIENT_ID = "raw"

_SIZE = struct.Struct(">i")


class ClosedError(Exception):
    """The broker closed the connection instead of answering."""


class SilenceError(Exception):
    """No answer came in time, and the connection stayed open."""


class RawConnection:
    """One TCP connection; `call` speaks whole requests, the rest sends and receives bytes."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 100

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def call(self, key: int, version: int, /, **values: Any) -> Any:
        """Send a request and return the decoded answer (a kio entity)."""
        correlation_id = self.send(key, version, **values)
        return self.receive(key, version, correlation_id)

    def send(self, key: int, version: int, /, **values: Any) -> int:
        """Send a request without waiting; its correlation id."""
        self._correlation_id += 1
        self.send_frame(encode_request(key, version, self._correlation_id, **values))
        return self._correlation_id

    def receive(self, key: int, version: int, correlation_id: int) -> Any:
        """The next answer, which must carry this correlation id."""
        return decode_response(key, version, correlation_id, self.receive_frame())

    def send_frame(self, content: bytes) -> None:
        """Send bytes with their size before them."""
        self.send_bytes(_SIZE.pack(len(content)) + content)

    def send_bytes(self, content: bytes) -> None:
        """Send bytes as they are."""
        try:
            self.socket.sendall(content)
        except (ConnectionError, BrokenPipeError) as error:
            raise ClosedError from error

    def receive_frame(self, timeout_s: float | None = None) -> bytes:
        """The content of the next frame; raises ClosedError or SilenceError."""
        if timeout_s is not None:
            self.socket.settimeout(timeout_s)
        (size,) = _SIZE.unpack(self._receive_exactly(_SIZE.size))
        return self._receive_exactly(size)

    def what_comes(self, timeout_s: float = 2.0) -> str:
        """How the broker reacts to what was sent: closed, silence, or the number of bytes of its
        answer.
        """
        try:
            return f"answer {len(self.receive_frame(timeout_s))} bytes"
        except ClosedError:
            return "closed"
        except SilenceError:
            return "silence"

    def _receive_exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self.socket.recv(size - len(received))
            except ConnectionError as error:
                raise ClosedError from error
            except TimeoutError as error:
                raise SilenceError from error
            if not chunk:
                raise ClosedError
            received += chunk
        return bytes(received)


def encode_request(
    key: int,
    version: int,
    correlation_id: int,
    client_id: str | None = CLIENT_ID,
    /,
    **values: Any,
) -> bytes:
    """Header and body of a request, without the size."""
    schema = load_request_schema(key, version)
    header_schema = schema.__header_schema__
    header = _entity(
        header_schema,
        {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": correlation_id,
            "client_id": client_id,
        },
    )
    buffer = io.BytesIO()
    entity_writer(header_schema)(buffer, header)
    entity_writer(schema)(buffer, _entity(schema, values))
    return buffer.getvalue()


def decode_response(key: int, version: int, correlation_id: int, frame: bytes) -> Any:
    """The answer in a frame; asserts the correlation id and that nothing is left over."""
    schema = response_schema(key, version)
    header, offset = entity_reader(schema.__header_schema__)(frame, 0)
    assert header.correlation_id == correlation_id
    answer, size = entity_reader(schema)(frame, offset)
    assert offset + size == len(frame), f"{len(frame) - offset - size} bytes after the answer"
    return answer


def _entity(schema: Any, values: dict[str, Any]) -> Any:
    """An entity of kio from plain values; the wrong name of a field is an error of the test."""
    hints = _type_hints(schema)
    arguments = {}
    for field in fields(schema):
        if field.name in values:
            arguments[field.name] = _value(hints[field.name], field, values[field.name])
        elif field.default is MISSING:
            arguments[field.name] = default_of(schema, field)
    unknown = values.keys() - {field.name for field in fields(schema)}
    if unknown:
        raise TypeError(f"{schema.__name__} has no field {sorted(unknown)}")
    return schema(**arguments)


def _value(hint: Any, field: Field[Any], value: Any) -> Any:
    if value is None:
        return None
    inner = _not_none(hint)
    if get_origin(inner) is tuple:
        element = get_args(inner)[0]
        return tuple(_entity(element, v) if isinstance(v, dict) else v for v in value)
    if isinstance(value, dict):
        return _entity(inner, value)
    if str(field.metadata.get("kafka_type")).startswith("timedelta"):
        return timedelta(milliseconds=value)
    return value


def array_element(schema: Any, name: str) -> Any:
    """The type of the elements of a field that is an array, else None."""
    inner = _not_none(_type_hints(schema)[name])
    return get_args(inner)[0] if get_origin(inner) is tuple else None


def is_nullable(schema: Any, name: str) -> bool:
    """True for a field that may be null."""
    return type(None) in get_args(_type_hints(schema)[name])


def default_of(schema: Any, field: Field[Any]) -> Any:
    """Return what a field without a default in kio gets: nothing, zero, null."""
    hint = _type_hints(schema)[field.name]
    inner = _not_none(hint)
    if get_origin(inner) is tuple:
        return ()
    if inner is not hint:
        return None
    kind = str(field.metadata["kafka_type"])
    if kind.startswith("timedelta"):
        return timedelta(0)
    return {"string": "", "bytes": b"", "bool": False, "uuid": UUID(int=0)}.get(kind, 0)


def _not_none(hint: Any) -> Any:
    if isinstance(hint, types.UnionType) or get_origin(hint) is not tuple:
        rest = [argument for argument in get_args(hint) if argument is not type(None)]
        return rest[0] if rest else hint
    return hint


@cache
def _type_hints(schema: Any) -> dict[str, Any]:
    return get_type_hints(schema)
