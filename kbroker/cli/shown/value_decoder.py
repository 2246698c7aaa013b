"""Decoders of keys and values: `--key-decoder` and `--value-decoder`.

Law: null stays null with any decoder. A value that cannot be decoded is printed as without a
decoder, and counted, so that one foreign record does not end the reading.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kbroker.cli.shown.record_rows import json_of, json_text, text_of
from kbroker.cli.usage_errors import none_of

Decoder = Callable[[bytes], Any]
"""Makes of bytes a value that JSON can hold. ValueError if they do not fit."""

DECODERS = "utf-8|int|hex|base64|json|avro:FILE.avsc"
_INT_SIZES = (1, 2, 4, 8)
_SHOWN_LETTERS = 40


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
    if name.startswith("avro:"):
        return _avro(name.removeprefix("avro:"))
    if name not in _DECODERS:
        raise click.UsageError(none_of("decoder", name, DECODERS.split("|")))
    return _DECODERS[name]


def _int(data: bytes) -> int:
    if len(data) not in _INT_SIZES:
        raise ValueError(f"an int has 1, 2, 4 or 8 bytes, not {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def _json(data: bytes) -> Any:
    try:
        return json.loads(text := data.decode())
    except json.JSONDecodeError as error:
        shown = text if len(text) <= _SHOWN_LETTERS else f"{text[:_SHOWN_LETTERS]}..."
        raise ValueError(f"{shown!r} is not JSON") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _avro(path: str) -> Decoder:
    try:
        from kbroker.cli.shown.avro_decoder import avro_decoder  # its library is an extra
    except ImportError as error:
        raise click.UsageError(
            "the decoder avro needs the package fastavro: install it with "
            "`pip install fastavro`, or kbroker with `[avro]`"
        ) from error
    try:
        return avro_decoder(Path(path).read_bytes())
    except OSError as error:
        raise click.UsageError(
            f"cannot read the schema of avro:{path}: {error.strerror}; give the path of an Avro "
            "schema in JSON"
        ) from error
    except ValueError as error:
        raise click.UsageError(f"{path}: {error}") from error


_DECODERS: dict[str, Decoder] = {
    "utf-8": lambda data: data.decode(),
    "int": _int,
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
    "json": _json,
}
