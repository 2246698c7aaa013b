"""Cipher suites by the names of Java, which are those of the standards, and by OpenSSL's. Pure."""

from __future__ import annotations

# All that OpenSSL has for TLS 1.3; there both call them the same.
SUITES_OF_TLS_1_3 = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_EXCHANGES = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "RSA": "",
}
_CIPHERS = {
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
    "AES_256_CBC_SHA384": "AES256-SHA384",
    "AES_256_CBC_SHA256": "AES256-SHA256",
    "AES_128_CBC_SHA256": "AES128-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA": "AES128-SHA",
}
# Only the exchanges with elliptic curves have SHA384 beside CBC, only the others SHA256 beside
# AES 256, and RSA alone never goes with ChaCha20.
_MISSING = (
    {(exchange, "AES_256_CBC_SHA384") for exchange in ("DHE_RSA", "RSA")}
    | {(exchange, "AES_256_CBC_SHA256") for exchange in ("ECDHE_ECDSA", "ECDHE_RSA")}
    | {("RSA", "CHACHA20_POLY1305_SHA256")}
)
OPENSSL_NAMES = {
    f"TLS_{exchange}_WITH_{cipher}": f"{theirs}{name}"
    for exchange, theirs in _EXCHANGES.items()
    for cipher, name in _CIPHERS.items()
    if (exchange, cipher) not in _MISSING
}
