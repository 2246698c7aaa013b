"""Recognises what else people send to a Kafka port, so that the log can say it in one line.

The hint explains a refusal that has already happened; nothing is decided here.
"""

from __future__ import annotations

_HTTP_METHODS = (
    b"GET ",
    b"POST",
    b"PUT ",
    b"HEAD",
    b"OPTI",
    b"DELE",
    b"PATC",
    b"CONN",
    b"TRAC",
    b"PRI ",
)
_TLS_HANDSHAKE = b"\x16\x03"  # record type 22, version 3.x
_PROXY_V1 = b"PROXY"
_PROXY_V2 = b"\r\n\r\n\x00\r\nQUIT\n"


def hint_for(first_bytes: bytes) -> str | None:
    """Say which protocol `first_bytes` look like, or None when they tell nothing."""
    if first_bytes.startswith(_HTTP_METHODS):
        return "the first bytes look like HTTP; this port speaks the Kafka protocol"
    if first_bytes.startswith(_TLS_HANDSHAKE):
        return "the first bytes look like TLS; this listener is PLAINTEXT (security.protocol of the client?)"
    if first_bytes.startswith((_PROXY_V1, _PROXY_V2)):
        return "the first bytes look like the PROXY protocol, which a Kafka port does not read"
    return None
