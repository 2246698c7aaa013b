"""SaslHandshake: which SASL mechanism the connection will use (KIP-43, KIP-152).

v0: Tokens follow as bare frames.
v1: Same bytes as v0. Tokens follow in SaslAuthenticate requests.
"""

from __future__ import annotations

from kbroker.protocol.schema import Message, message, wire


@message(key=17, versions="0-1")
class SaslHandshakeRequest(Message):
    mechanism: str = wire("string", default="")


@message(key=17, versions="0-1")
class SaslHandshakeResponse(Message):
    error_code: int = wire("int16", default=0)
    mechanisms: list[str] = wire("[]string", default=[])
