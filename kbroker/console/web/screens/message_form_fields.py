"""A new message as the fields of a form, and back. Pure.

Law: a message that is filled in from another one has its bytes again when it is sent.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from kbroker.client.moments import MOMENTS, timestamp_ms
from kbroker.console.producing import FORMS, NULL, NewMessage, entered
from kbroker.console.web.web_request import Fields
from kbroker.record.default_record import Headers, Record

OR_NONE: Final = "or-none"
"""The form of a key that is text, or null if nothing was entered."""
HEADER_FORMS: Final = ("text", "base64", "hex")
MOST_AGAIN_BYTES: Final = 1024 * 1024
"""The most of a message that a form is filled with; base64 and the escapes of a form add to it."""


def new_message_of(topic: str, filled: Fields, now_ms: int) -> NewMessage:
    """Return the message that was entered. Raises ValueError with a sentence, RefusedError for what
    is not a number.
    """
    return NewMessage(
        topic=topic,
        key=_bytes(filled, "key", OR_NONE),
        value=_bytes(filled, "value", "text"),
        headers=headers_in(filled.exact("headers"), filled.text("header_form", "text")),
        partition=filled.optional_number("partition"),
        timestamp_ms=_time_ms(filled.text("time"), now_ms),
    )


def _bytes(filled: Fields, name: str, default: str) -> bytes | None:
    text, form = filled.exact(name), filled.text(f"{name}_form", default)
    if form == OR_NONE:
        form = "text" if text else NULL
    if form == NULL and text:
        raise ValueError(f"the {name} is to be null, and yet something is entered")
    try:
        return entered(text, form)
    except ValueError as error:
        raise ValueError(f"the {name}: {error}") from error


def headers_in(text: str, form: str) -> tuple[tuple[str, bytes | None], ...]:
    r"""Return headers that stand in lines of NAME=VALUE, or of NAME alone for null.

    >>> headers_in("a=1\nb", "text")
    (('a', b'1'), ('b', None))
    """
    found: list[tuple[str, bytes | None]] = []
    for line in filter(None, text.split("\n")):
        name, sign, value = line.partition("=")
        if not name:
            raise ValueError(f"'{line[:100]}' names no header: give NAME=VALUE, or NAME for null")
        try:
            entered(name, "text")
            found.append((name, entered(value, form) if sign else None))
        except ValueError as error:
            raise ValueError(f"the header {name[:100]!r}: {error}") from error
    return tuple(found)


def _time_ms(text: str, now_ms: int) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdecimal() and len(text) <= 19:
        return int(text)
    found = timestamp_ms(text, now_ms) if len(text) <= 40 else None
    if found is None:
        raise ValueError(f"the time: {text[:100]!r} is neither in ms since 1970 nor {MOMENTS}")
    return found


def fields_of_record(partition: int, record: Record, *, is_tombstone: bool) -> Mapping[str, str]:
    """Return the fields of a message that is to be written again, or of a tombstone for its key.

    Raises ValueError if a form cannot hold it.
    """
    value = None if is_tombstone else record.value
    headers: Headers = () if is_tombstone else record.headers
    sizes = [len(record.key or b""), len(value or b""), *(len(each or b"") for _, each in headers)]
    if sum(sizes) > MOST_AGAIN_BYTES:
        raise ValueError("it is larger than a form holds: `kbroker consume` and `produce` copy it")
    key_form, key = _entry(record.key)
    value_form, text = _entry(value)
    header_form, lines = _header_lines(headers)
    return {
        "partition": str(partition),
        "key": key,
        "key_form": key_form,
        "value": text,
        "value_form": value_form,
        "headers": lines,
        "header_form": header_form,
    }


def _entry(data: bytes | None) -> tuple[str, str]:
    """Return the form in which bytes are filled in, and their text."""
    if data is None:
        return NULL, ""
    text = _plain_text(data)
    return ("base64", base64.b64encode(data).decode()) if text is None else ("text", text)


def _plain_text(data: bytes) -> str | None:
    """Return text that a browser sends back as it is; None if the bytes are not such."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return text if all(letter.isprintable() or letter in "\n\t" for letter in text) else None


def _header_lines(headers: Headers) -> tuple[str, str]:
    for name, _ in headers:
        if not name or "=" in name or not name.isprintable():
            raise ValueError(f"a form cannot hold its header {name[:100]!r}")
    texts = [_plain_text(data) if data is not None else "" for _, data in headers]
    is_text = all(text is not None and "\n" not in text for text in texts)
    lines = [
        name if data is None else f"{name}={_header_text(data, is_text=is_text)}"
        for name, data in headers
    ]
    return ("text" if is_text else "base64"), "\n".join(lines)


def _header_text(data: bytes, *, is_text: bool) -> str:
    return data.decode() if is_text else base64.b64encode(data).decode()


KEY_FORMS: Final[Mapping[str, str]] = {
    OR_NONE: "text, none if empty",
    **{name: name for name in FORMS},
    NULL: "null (no key)",
}
VALUE_FORMS: Final[Mapping[str, str]] = {
    **{name: name for name in FORMS},
    NULL: "null (tombstone)",
}
