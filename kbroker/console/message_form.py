"""MessageForm: what keys and values of a topic are, as it was chosen, or as Kafka's own topics have
them: how they are shown, and what a search looks into.

Pure.
"""

from __future__ import annotations

import json
from typing import Any

from kbroker.console.shown_values import (
    AUTO,
    NULL,
    PREVIEW_BYTES,
    ShownValue,
    check_choice,
    shown_json,
    shown_value,
)
from kbroker.decoding.internal_records import internal_decoder_of
from kbroker.decoding.record_rows import json_text
from kbroker.decoding.value_decoders import PLAIN_DECODERS
from kbroker.record.default_record import Record

_AS_THEY_ARE = (AUTO, "utf-8", "json")  # a search looks into the bytes


class MessageForm:
    """The form of a topic's messages."""

    def __init__(self, topic: str, key_decoder: str = AUTO, value_decoder: str = AUTO) -> None:
        """ValueError for a decoder that a screen may not ask for."""
        check_choice(key_decoder)
        check_choice(value_decoder)
        self._key_decoder, self._value_decoder = key_decoder, value_decoder
        is_chosen = (key_decoder, value_decoder) != (AUTO, AUTO)
        self._internal = None if is_chosen else internal_decoder_of(topic)

    def shown(
        self, record: Record, most_bytes: int = PREVIEW_BYTES
    ) -> tuple[ShownValue, ShownValue]:
        """Return key and value as they are shown, up to about `most_bytes` of each."""
        if self._internal is not None:
            sizes = (len(record.key or b""), len(record.value or b""))
            key, value = (
                shown_json(each, size, most_bytes)
                for each, size in zip(self._internal(record.key, record.value), sizes, strict=True)
            )
            return key, (NULL if record.value is None else value)
        return (
            shown_value(record.key, self._key_decoder, most_bytes=most_bytes),
            shown_value(record.value, self._value_decoder, most_bytes=most_bytes),
        )

    def searched_key(self, record: Record) -> bytes:
        """Return the bytes in which a search looks for text of the key."""
        if self._internal is not None:
            return json_text(self._internal(record.key, None)[0]).encode()
        return _searched(record.key, self._key_decoder)

    def searched_value(self, record: Record) -> bytes:
        """Return the bytes in which a search looks for text of the value."""
        if self._internal is not None:
            return json_text(self._internal(record.key, record.value)[1]).encode()
        return _searched(record.value, self._value_decoder)

    def value_json(self, record: Record) -> Any:
        """Return the value as JSON knows it. ValueError if it is none."""
        if record.value is None:
            raise ValueError("null")
        if self._internal is not None:
            return self._internal(record.key, record.value)[1]
        if self._value_decoder in _AS_THEY_ARE:
            try:
                return json.loads(record.value)
            except RecursionError as error:
                raise ValueError("it is nested too deeply") from error
        return PLAIN_DECODERS[self._value_decoder](record.value)


def _searched(data: bytes | None, decoder: str) -> bytes:
    if data is None or decoder in _AS_THEY_ARE:
        return data or b""
    try:
        return str(PLAIN_DECODERS[decoder](data)).encode()
    except ValueError:
        return data
