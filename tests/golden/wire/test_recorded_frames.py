"""Every recorded frame is read, and written again as the same bytes."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.codec import decode, encode
from kbroker.protocol.header import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from kbroker.protocol.schema import Message
from tests.golden.wire.declared_messages import all_messages

FRAMES = Path(__file__).with_name("frames.jsonl.gz")
NOT_RECORDED = {
    58,  # Envelope: no broker with ZooKeeper sends it
    *(52, 53, 54, 59, 62, 63, 70, 73, 82),  # between KRaft brokers and controllers only
    *(71, 72),  # clients send them only where a broker collects metrics
    *(93, 94),  # newer than the brokers that were recorded
}
TRAILING = b"\x01\x00\x00"  # librdkafka's admin client puts it after Metadata v12 and v13


@cache
def recorded() -> dict[tuple[int, str], list[dict[str, Any]]]:
    frames = defaultdict(list)
    with gzip.open(FRAMES, "rt") as lines:
        for line in lines:
            frame = json.loads(line)
            frames[frame["key"], frame["dir"]].append(frame)
    return dict(frames)


@cache
def message_classes() -> dict[tuple[int, str], type[Message]]:
    return {
        (cls.spec.key or 0, "req" if cls.__name__.endswith("Request") else "res"): cls
        for cls in all_messages()
    }


def written_again(cls: type[Message], frame: dict[str, Any], data: bytes) -> bytes:
    version = frame["version"]
    if frame["dir"] == "req":
        header, offset = decode_request_header(data)
        assert (header.api_key, header.api_version) == (frame["key"], version)
        message, _ = decode(cls, version, data, offset)
        return encode(message, version, encode_request_header(header))
    correlation_id, offset = decode_response_header(data, frame["key"], version)
    message, _ = decode(cls, version, memoryview(bytearray(data)), offset)
    return encode(message, version, encode_response_header(frame["key"], version, correlation_id))


def differences(key: int, direction: str) -> Iterator[tuple[dict[str, Any], bytes]]:
    """Frames that come out otherwise than they went in, with the bytes that differ at the end."""
    cls = message_classes()[key, direction]
    for frame in recorded()[key, direction]:
        data = base64.b64decode(frame["b64"])
        again = written_again(cls, frame, data)
        if again != data:
            assert data.startswith(again), frame
            yield frame, data[len(again) :]


def is_known(frame: dict[str, Any], rest: bytes) -> bool:
    return (frame["key"], frame["dir"], rest) == (3, "req", TRAILING)


@pytest.mark.parametrize(("key", "direction"), sorted(recorded()), ids=str)
def test_recorded_frames_are_written_as_they_were_read(key: int, direction: str) -> None:
    assert [frame for frame, rest in differences(key, direction) if not is_known(frame, rest)] == []


def test_bytes_after_the_message_are_accepted_as_librdkafka_sends_them() -> None:
    assert {frame["version"] for frame, _ in differences(3, "req")} == {12, 13}


def test_every_declared_message_was_recorded() -> None:
    declared = {(key, direction) for key, direction in message_classes() if key not in NOT_RECORDED}

    assert sorted(recorded()) == sorted(declared)
