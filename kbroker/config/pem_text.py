"""PEM that stands in a setting, where its lines may have become one: Kafka takes any blanks between
them, OpenSSL only lines. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap

_BLOCK = re.compile(r"-+BEGIN\s+([A-Z0-9 ]+?)\s*-+(.*?)-+END\s+\1\s*-+", re.DOTALL)
_LINE_CHARACTERS = 64


def certificates_in(text: str) -> str:
    """The certificates of the text with lines as OpenSSL reads them. Raises ValueError for none."""
    found = [block for kind, block in _blocks(text) if kind.endswith("CERTIFICATE")]
    if not found:
        raise ValueError("it has no -----BEGIN CERTIFICATE-----")
    return "".join(found)


def private_key_in(text: str) -> str:
    """The one private key of the text with lines. Raises ValueError for none, or several."""
    found = [block for kind, block in _blocks(text) if kind.endswith("PRIVATE KEY")]
    if len(found) != 1:
        raise ValueError(f"it has {len(found)} of -----BEGIN PRIVATE KEY-----, instead of one")
    return found[0]


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """Each block with its kind; one with header fields stays as it is."""
    for match in _BLOCK.finditer(text):
        kind, body = match[1], match[2]
        if ":" not in body:
            body = "\n".join(("", *wrap("".join(body.split()), _LINE_CHARACTERS), ""))
        yield kind, f"-----BEGIN {kind}-----{body}-----END {kind}-----\n"
