"""Bytes <-> messages: one decoder and one encoder per message class and version, built on first use
and kept.

    request, end = decode(FetchRequest, 12, frame, offset)
    pieces = encode_pieces(response, 12, head=encode_response_header(...))

Law: decoding gives a message or ProtocolError, in time and memory bounded by the bytes given,
because they come from anybody. Bytes after the message are left alone (librdkafka sends some).
Encoding a value that does not fit its field is a bug and raises what Python raises; text that is
not Unicode on either side is replaced, never refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kbroker.errors import ProtocolError
from kbroker.protocol.decoder_source import DecoderSource
from kbroker.protocol.encoder_source import EncoderSource
from kbroker.protocol.request import Piece
from kbroker.protocol.schema import Message, MessageSpec, Struct

MessageT = TypeVar("MessageT", bound=Message)

Decoder = Callable[[memoryview, int], tuple[Any, int]]
Encoder = Callable[[Struct, bytes], list[Piece]]

_decoders: dict[tuple[type[Message], int, int], Decoder] = {}
_encoders: dict[tuple[type[Struct], int], Encoder] = {}


def decode(
    cls: type[MessageT], version: int, buffer: bytes | bytearray | memoryview, offset: int = 0
) -> tuple[MessageT, int]:
    """Read a message that starts at `offset`; returns it and the offset after it.

    Records stay views of `buffer`; everything else is copied. Raises ProtocolError for bytes that
    are no such message and for a version that the class does not declare.
    """
    view = buffer if type(buffer) is memoryview else memoryview(buffer)
    return decoder_of(cls, version)(view, offset)


def decoder_of(cls: type[Message], version: int, max_elements: int | None = None) -> Decoder:
    """Return the decoder that `decode` would use for a message in a memoryview: for callers that
    decode many of one class. `max_elements` bounds those of all arrays in place of the class's own.
    """
    most = max_elements or cls.max_elements
    return _decoders.get((cls, version, most)) or _build_decoder(cls, version, most)


def encode_pieces(message: Message, version: int, head: bytes = b"") -> list[Piece]:
    """The message as a list of buffers: records as they were given, everything between them joined.

    `head` is put before the first byte: the response header. Raises ValueError for a version that
    is not declared.
    """
    return encoder_of(type(message), version)(message, head)


def encoder_of(cls: type[Struct], version: int) -> Encoder:
    """Return the encoder of `encode_pieces`, for callers with many messages of one class."""
    return _encoders.get((cls, version)) or _build_encoder(cls, version)


def encode(message: Message, version: int, head: bytes = b"") -> bytes:
    """The message as one bytes object. Raises ValueError for a version that is not declared."""
    pieces = encode_pieces(message, version, head)
    if len(pieces) == 1 and isinstance(pieces[0], bytes):
        return pieces[0]
    return b"".join(
        piece if isinstance(piece, (bytes, bytearray, memoryview)) else piece.read()
        for piece in pieces
    )


def keep_encoded(element: Struct, version: int) -> None:
    """Write a struct without records now; a message of that version that has it in an array takes
    those bytes.

    For what many answers share, and for large answers that are written piece by piece. The struct
    must not change any more.
    """
    if element.encoded is not None and version in element.encoded:
        return
    (data,) = encoder_of(type(element), version)(element, b"")
    assert isinstance(data, bytes), "it holds no records"
    vars(element)["encoded"] = {**(element.encoded or {}), version: data}


def _build_decoder(cls: type[Message], version: int, most: int) -> Decoder:
    spec = cls.spec
    if version not in spec.versions:
        raise ProtocolError(f"{spec.name} has no version {version}")
    decoder: Decoder = DecoderSource(cls, version, version in spec.flexible, most).build()
    _decoders[cls, version, most] = decoder
    return decoder


def _build_encoder(cls: type[Struct], version: int) -> Encoder:
    spec: MessageSpec = cls.message_class.spec
    if version not in spec.versions:
        raise ValueError(f"{spec.name} has no version {version}")
    encoder: Encoder = EncoderSource(cls, version, version in spec.flexible).build()
    _encoders[cls, version] = encoder
    return encoder
