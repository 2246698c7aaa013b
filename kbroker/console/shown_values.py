"""Keys and values as a screen shows them: text, JSON, a number, or hexadecimal digits.

Law: whatever the bytes are, something is shown, and it says what it was taken for. What is shown of
a large one is cut, and says so. Nothing here makes text safe for HTML. Pure.
"""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass, replace
from typing import Any, Final

from kbroker.console.json_layout import indented
from kbroker.decoding.record_rows import json_text
from kbroker.decoding.value_decoders import PLAIN_DECODERS, Decoder
from kbroker.near_names import did_you_mean

AUTO: Final = "auto"
CHOICES: Final = (AUTO, *PLAIN_DECODERS)
"""The names of decoders that a screen may ask for; none of them reads a file."""

PREVIEW_BYTES: Final = 4 * 1024
OPEN_BYTES: Final = 1024 * 1024
_INT_SIZES = (4, 8)
_SCHEMA_BYTES = 5  # a zero, and the id of a schema
_CONTROLS = bytes({*range(32), 127} - {9, 10, 13})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownValue:
    """A key or a value. `kind`: null, empty, text, json, int, hex, base64, or "schema ID" for the
    bytes of a serializer with a registry; `reason`: why it is not shown as was asked for.
    """

    kind: str
    text: str
    size_bytes: int  # of the whole, -1 for null
    is_cut: bool = False
    reason: str | None = None


NULL: Final = ShownValue(kind="null", text="", size_bytes=-1)
_EMPTY: Final = ShownValue(kind="empty", text="", size_bytes=0)


def check_choice(name: str) -> None:
    """Raise ValueError for a decoder that a screen may not ask for."""
    if name not in CHOICES:
        hint = did_you_mean(name, CHOICES)
        raise ValueError(f"decoder '{name}' is none of {', '.join(CHOICES)}{hint}")


def shown_value(
    data: bytes | None, decoder: str = AUTO, *, most_bytes: int = PREVIEW_BYTES
) -> ShownValue:
    """Return bytes as they are shown, up to about `most_bytes` of them."""
    if data is None:
        return NULL
    if decoder == AUTO:
        return _guessed(data, most_bytes)
    try:
        return _decoded(data, decoder, PLAIN_DECODERS[decoder], most_bytes)
    except ValueError as error:
        guessed = _guessed(data, most_bytes)
        return ShownValue(
            kind=guessed.kind,
            text=guessed.text,
            size_bytes=guessed.size_bytes,
            is_cut=guessed.is_cut,
            reason=str(error),
        )


def shown_json(decoded: Any, size_bytes: int, most_bytes: int) -> ShownValue:
    """Return a value that was decoded already, in JSON."""
    if decoded is None:
        return NULL
    return _cut("json", json_text(decoded), size_bytes, most_bytes)


def laid_out(value: ShownValue, most_letters: int) -> ShownValue:
    """Return what a page of its own shows of a value: JSON in several lines, and of a long one the
    beginning.
    """
    text = value.text
    if value.kind == "json" and not value.is_cut:
        text = indented(text, most_letters)
    is_cut = value.is_cut or len(value.text) > most_letters or len(text) > most_letters
    return replace(value, text=text[:most_letters], is_cut=is_cut)


def _decoded(data: bytes, name: str, decode: Decoder, most_bytes: int) -> ShownValue:
    if name in ("hex", "base64"):
        return _cut(name, str(decode(data[:most_bytes])), len(data), 2 * most_bytes, of=most_bytes)
    if name == "json" and len(data) > most_bytes:
        return _guessed(data, most_bytes)
    decoded = decode(data)
    if name == "json":
        return ShownValue(kind=name, text=data.decode(), size_bytes=len(data))
    return _cut("text" if name == "utf-8" else name, str(decoded), len(data), most_bytes)


def _guessed(data: bytes, most_bytes: int, *, may_have_schema: bool = True) -> ShownValue:
    if not data:
        return _EMPTY
    text = _text(data, most_bytes)
    is_cut = len(data) > most_bytes
    if text is not None:
        may_be_json = text.lstrip()[:1] in ("{", "[")
        if may_be_json and not is_cut and _is_json(text):
            return ShownValue(kind="json", text=text, size_bytes=len(data))
        return ShownValue(kind="text", text=text, size_bytes=len(data), is_cut=is_cut)
    is_framed = may_have_schema and data[0] == 0 and len(data) > _SCHEMA_BYTES
    if is_framed and len(data) not in _INT_SIZES:
        schema_id = int.from_bytes(data[1:_SCHEMA_BYTES], "big")
        rest = data[_SCHEMA_BYTES : _SCHEMA_BYTES + most_bytes + 1]
        body = _guessed(rest, most_bytes, may_have_schema=False)
        return ShownValue(
            kind=f"schema {schema_id}", text=body.text, size_bytes=len(data), is_cut=body.is_cut
        )
    if len(data) in _INT_SIZES:
        number = int.from_bytes(data, "big", signed=True)
        return ShownValue(kind="int", text=str(number), size_bytes=len(data))
    return _cut("hex", data[:most_bytes].hex(), len(data), 2 * most_bytes, of=most_bytes)


def _text(data: bytes, most_bytes: int) -> str | None:
    """Return the beginning of what may be text; None if it is something else."""
    head = data[:most_bytes]
    if len(head.translate(None, _CONTROLS)) < len(head):
        return None
    try:
        # A letter that the cut goes through is left out.
        return codecs.getincrementaldecoder("utf-8")().decode(head, final=len(data) <= most_bytes)
    except UnicodeDecodeError:
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _cut(
    kind: str, text: str, size_bytes: int, most_letters: int, *, of: int | None = None
) -> ShownValue:
    """Return a text up to `most_letters`; `of`: the bytes that it was made of, if not all."""
    is_cut = len(text) > most_letters or (of is not None and size_bytes > of)
    return ShownValue(kind=kind, text=text[:most_letters], size_bytes=size_bytes, is_cut=is_cut)
