"""Bytes as text, the way Java decodes UTF-8: what is not UTF-8 becomes U+FFFD.

Python replaces the same stretches but for encoded surrogates: Java takes such a sequence, whole or
cut short, for one character and Python for one per byte.
"""

from __future__ import annotations

import re
from typing import Final

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()


def java_text(data: bytes) -> str:
    """Decode bytes as Java's `new String(data, UTF_8)` does."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")
