"""Forms of printed keys and values: `--key-decoder` and `--value-decoder`.

Law: null stays null with any decoder. A value that cannot be decoded is printed as without a
decoder, and counted, so that one foreign record does not end the reading.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from kbroker.decoding.record_rows import json_of, json_text, text_of
from kbroker.decoding.value_decoders import Decoder, DecoderError, decoder_named


class ValueForm:
    """Prints keys, or values; `pretty`: structured ones take several lines as text."""

    def __init__(self, name: str | None = None, *, pretty: bool = False) -> None:
        """`name`: of a decoder; None: text if the bytes are UTF-8. Raises UsageError."""
        self.name = name
        self.failures = 0
        self._decode = None if name is None else _decoder(name)
        self._indent = 2 if pretty else None
        # As JSON, in one line.
        self.json: Callable[[bytes | None], str] = json_of if name is None else self._json

    def text(self, data: bytes | None) -> bytes:
        """Return a value by itself; null is empty."""
        if self._decode is None or data is None:
            return data or b""
        try:
            decoded = self._decode(data)
        except ValueError:
            self.failures += 1
            return data
        if isinstance(decoded, str):
            return decoded.encode("utf-8", "backslashreplace")
        return json_text(decoded, self._indent).encode()

    def cell(self, data: bytes | None) -> str | None:
        """Return the cell of a table."""
        if data is None:
            return None
        if self._decode is None:
            found = text_of(data)
            return found if isinstance(found, str) else json_text(found)
        return self.text(data).decode("utf-8", "replace")

    def reason(self, data: bytes | None) -> str | None:
        """Return why a value cannot be decoded; None if it can."""
        if self._decode is None or data is None:
            return None
        try:
            self._decode(data)
        except ValueError as error:
            return str(error)
        return None

    def _json(self, data: bytes | None) -> str:
        if self._decode is None or data is None:
            return json_of(data)
        try:
            decoded = self._decode(data)
        except ValueError:
            self.failures += 1
            return json_of(data)
        if self.name == "json" and b"\n" not in data and b"\r" not in data:
            return data.decode()  # 1.10 stays 1.10
        return json_text(decoded)


def _decoder(name: str) -> Decoder:
    try:
        return decoder_named(name)
    except DecoderError as error:
        raise click.UsageError(str(error)) from error
