"""JsonToken: a JSON web token in its compact form (RFC 7515, section 7.1), taken apart. Pure.

Law: nothing in it is believed here, and no error repeats a part of it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class JsonToken(NamedTuple):
    """Three parts, of which the signature is over the text of the first two."""

    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def parse_token(text: str) -> JsonToken:
    """Take a token apart. Raises ValueError that does not repeat it."""
    parts = text.split(".")
    if len(parts) != 3:
        raise ValueError("it is not a JSON web token of three parts")
    header, claims, signature = parts
    return JsonToken(
        _object(header, "header"),
        _object(claims, "claims"),
        f"{header}.{claims}".encode(),
        _bytes(signature, "signature"),
    )


def seconds_as_ms(value: object) -> int | None:
    """A time of a claim, which is in seconds, as milliseconds; None for anything else.

    >>> seconds_as_ms(1.5), seconds_as_ms(True), seconds_as_ms(1e300)
    (1500, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value * 1000) if 0 <= value < _SECONDS_MAX else None  # NaN is not


def _object(part: str, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(_bytes(part, what))
    except (ValueError, RecursionError):
        raise ValueError(f"its {what} is not JSON in base64") from None
    if not isinstance(found, dict):
        raise ValueError(f"its {what} is not an object of JSON")
    return found


def _bytes(part: str, what: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise ValueError(f"its {what} is not base64") from None


_SECONDS_MAX = 2**43  # in milliseconds it still is a whole number of a double
