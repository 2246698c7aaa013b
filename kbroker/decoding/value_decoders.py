"""Decoders of keys and values by name. They make of bytes a value that JSON can hold."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from kbroker.near_names import did_you_mean

Decoder = Callable[[bytes], Any]
"""Makes of bytes a value that JSON can hold. ValueError if they do not fit."""

DECODERS: Final = "utf-8|int|hex|base64|json|avro:FILE.avsc"
_AVRO = "avro:"
_INT_SIZES = (1, 2, 4, 8)
_SHOWN_LETTERS = 40


class DecoderError(ValueError):
    """A decoder that is not there, or lacks something; the message is a sentence for a person."""


def decoder_named(name: str) -> Decoder:
    """Return the decoder of this name, one of `DECODERS`. Raises DecoderError.

    A name with `avro:` makes this process read the file, so it may only come from whoever runs it.
    """
    if name.startswith(_AVRO):
        return _avro(name.removeprefix(_AVRO))
    if name not in PLAIN_DECODERS:
        known = DECODERS.split("|")
        hint = did_you_mean(name, known)
        raise DecoderError(f"decoder '{name}' is none of {', '.join(known)}{hint}")
    return PLAIN_DECODERS[name]


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
        from kbroker.decoding.avro_decoder import avro_decoder  # its library is an extra
    except ImportError as error:
        raise DecoderError(
            "the decoder avro needs the package fastavro: install it with "
            "`pip install fastavro`, or kbroker with `[avro]`"
        ) from error
    try:
        return avro_decoder(Path(path).read_bytes())
    except OSError as error:
        raise DecoderError(
            f"cannot read the schema of avro:{path}: {error.strerror}; give the path of an Avro "
            "schema in JSON"
        ) from error
    except ValueError as error:
        raise DecoderError(f"{path}: {error}") from error


PLAIN_DECODERS: Final[Mapping[str, Decoder]] = {
    "utf-8": lambda data: data.decode(),
    "int": _int,
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
    "json": _json,
}
"""Those that need nothing but the bytes."""
