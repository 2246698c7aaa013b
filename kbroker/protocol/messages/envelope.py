"""Envelope: a client's request on its way from the broker that got it to the controller (KIP-590).

v0: flexible.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=58, versions="0", flexible="0+")
class EnvelopeRequest(Message):
    """A request with its header, and whose it is: the principal as DefaultPrincipalData after two
    bytes that hold its version, the address as its 4 or 16 bytes.
    """

    request_data: bytes = wire("bytes", default=b"")
    request_principal: bytes | None = wire("bytes", nullable="0+", default=b"")
    client_host_address: bytes = wire("bytes", default=b"")


@message(key=58, versions="0", flexible="0+")
class EnvelopeResponse(Message):
    """The answer with its header; None if the envelope itself was refused."""

    response_data: bytes | None = wire("bytes", nullable="0+", default=None)
    error_code: int = wire("int16", default=0)


@message(key=None, versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """A principal as Kafka's own principal builder writes it."""

    type: str = wire("string", default="")
    name: str = wire("string", default="")
    token_authenticated: bool = wire("bool", default=False)
