"""Keys and values of the records in Kafka's own topics: int16 version, then the fields.

Pure.
"""

from __future__ import annotations

from struct import Struct as Layout

from kbroker.errors import ProtocolError
from kbroker.protocol.codec import encode
from kbroker.protocol.schema import Message

_VERSION = Layout(">h")
VERSION_BYTES = _VERSION.size


class KeptRecordError(ProtocolError):
    """A record of a kind, named by the message, that is not served here and stays in the log."""


def versioned(data: Message, version: int) -> bytes:
    return encode(data, version, _VERSION.pack(version))


def keyed(key: Message) -> bytes:
    """The bytes of a key whose kind is part of its declaration."""
    kind = key.spec.key
    assert kind is not None
    return encode(key, 0, _VERSION.pack(kind))


def version_of(data: bytes) -> int:
    """The version of a key or value. ProtocolError for bytes that have none."""
    if len(data) < VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(data)[0]
    return version
