"""Request headers 0 to 2 and response headers 0 and 1 ("Request Header" and "Response Header" of
the protocol guide).

Which header goes with a message follows from its key and version: flexible versions have request
header 2 and response header 1. Two exceptions of Kafka's: ControlledShutdown 0 has request header
0, without a client id, and ApiVersions is always answered with response header 0, because its
reader does not yet know what the broker understands (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from kbroker.errors import ProtocolError
from kbroker.model import new_tuple
from kbroker.protocol.primitives import MAX_UNKNOWN_TAGS, read_uvarint, skip_tags, write_uvarint
from kbroker.protocol.schema import FIRST_FLEXIBLE, first_flexible_version
from kbroker.unserved import UnservedError, unknown_api

API_VERSIONS_KEY = 18
CONTROLLED_SHUTDOWN_KEY = 7

_FIXED = Struct(">hhi")
_FIXED_AND_LENGTH = Struct(">hhih")
_CORRELATION_ID = Struct(">i")
_CORRELATION_ID_AND_TAGS = Struct(">ix")


class RequestHeader(NamedTuple):
    """The header that stands before every request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, api_version: int) -> int:
    """0, 1 or 2. Raises UnservedError for a key that no message declares."""
    if api_key == CONTROLLED_SHUTDOWN_KEY and api_version == 0:
        return 0
    first_flexible = first_flexible_version(api_key)
    if first_flexible is None:
        raise UnservedError(unknown_api(api_key))
    return 2 if api_version >= first_flexible else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """0 or 1. Raises UnservedError for a key that no message declares."""
    if api_key == API_VERSIONS_KEY:
        return 0
    return request_header_version(api_key, api_version) // 2


def decode_request_header(
    buffer: bytes | bytearray | memoryview, offset: int = 0
) -> tuple[RequestHeader, int]:
    """Read the header at `offset`; returns it and the offset of the request's body.

    A client id that is not UTF-8 comes out with replacement characters. The version is taken as it
    comes: whether it is served is not decided here. Raises ProtocolError for truncated bytes or a
    bad length, UnservedError for an unknown API key.
    """
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    limit = len(view)
    if limit - offset < _FIXED_AND_LENGTH.size:
        return _decode_without_client_id(view, offset)
    api_key, api_version, correlation_id, length = _FIXED_AND_LENGTH.unpack_from(view, offset)
    first_flexible = FIRST_FLEXIBLE.get(api_key)
    if first_flexible is None or (api_version == 0 and api_key == CONTROLLED_SHUTDOWN_KEY):
        if request_header_version(api_key, api_version) == 0:
            return _decode_without_client_id(view, offset)
        first_flexible = FIRST_FLEXIBLE[api_key]
    offset += _FIXED_AND_LENGTH.size
    client_id = None
    if length >= 0:
        if length > limit - offset:
            raise ProtocolError(f"client id of {length} bytes, {limit - offset} remain")
        client_id = str(view[offset : offset + length], "utf-8", "replace")
        offset += length
    elif length != -1:
        raise ProtocolError(f"client id of {length} bytes")
    if api_version >= first_flexible:
        if offset < limit and not view[offset]:
            offset += 1
        else:
            offset = _skip_header_tags(view, offset, limit)
    return new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id)), offset


def _decode_without_client_id(view: memoryview, offset: int) -> tuple[RequestHeader, int]:
    if len(view) - offset < _FIXED.size:
        raise ProtocolError(f"request header of {len(view) - offset} bytes")
    api_key, api_version, correlation_id = _FIXED.unpack_from(view, offset)
    if request_header_version(api_key, api_version) != 0:
        raise ProtocolError("request header ends before the client id")
    return RequestHeader(api_key, api_version, correlation_id, None), offset + _FIXED.size


def _skip_header_tags(view: memoryview, offset: int, limit: int) -> int:
    try:
        count, offset = read_uvarint(view, offset)
        if count:
            offset, _ = skip_tags(view, offset, limit, count, MAX_UNKNOWN_TAGS)
    except IndexError:
        raise ProtocolError("request header ends inside its tagged fields") from None
    return offset


def encode_request_header(header: RequestHeader) -> bytes:
    """The header as a client sends it, in the header version that its key and version ask for."""
    header_version = request_header_version(header.api_key, header.api_version)
    fixed = _FIXED.pack(header.api_key, header.api_version, header.correlation_id)
    if header_version == 0:
        return fixed
    client_id = None if header.client_id is None else header.client_id.encode("utf-8", "replace")
    length = -1 if client_id is None else len(client_id)
    tags = write_uvarint(0) if header_version == 2 else b""
    return fixed + length.to_bytes(2, "big", signed=True) + (client_id or b"") + tags


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header of the answer to a request of that key and version."""
    if response_header_version(api_key, api_version):
        return _CORRELATION_ID_AND_TAGS.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def decode_response_header(
    buffer: bytes | bytearray | memoryview, api_key: int, api_version: int, offset: int = 0
) -> tuple[int, int]:
    """Read the header of an answer: (correlation id, offset of the body). Raises ProtocolError."""
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    if len(view) - offset < _CORRELATION_ID.size:
        raise ProtocolError(f"response header of {len(view) - offset} bytes")
    (correlation_id,) = _CORRELATION_ID.unpack_from(view, offset)
    offset += _CORRELATION_ID.size
    if response_header_version(api_key, api_version):
        offset = _skip_header_tags(view, offset, len(view))
    return correlation_id, offset
