"""Records of the brokers' own topics that are none: shown as they are, never a crash."""

from __future__ import annotations

import pytest

from kbroker.decoding.internal_records import internal_decoder_of
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

KEY = b"\x00\x00\x00\x01t"
PIECES = (None, b"", b"\x00", b"\x00\x00", b"\x00\x63", b"\xff\xff", b"\x00\x01\x7f\xff", KEY)


@pytest.mark.parametrize("topic", [GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC])
@pytest.mark.parametrize("value", PIECES)
@pytest.mark.parametrize("key", PIECES)
def test_any_bytes_are_shown(topic: str, key: bytes | None, value: bytes | None) -> None:
    decode = internal_decoder_of(topic)
    assert decode is not None

    shown_key, _ = decode(key, value)

    assert "kind" in shown_key
