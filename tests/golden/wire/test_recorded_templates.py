"""Recorded requests that clients repeat, changed in every byte: a template reads what the decoder
reads, or does not fit.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.apis.lanes import targets_of
from kbroker.errors import ProtocolError
from kbroker.protocol.codec import decode
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.schema import Message, copied
from kbroker.protocol.template import Template
from tests.golden.wire.test_recorded_frames import recorded

REPEATED: tuple[type[Message], ...] = (
    ProduceRequest,
    FetchRequest,
    OffsetCommitRequest,
    HeartbeatRequest,
)


def requests_of(cls: type[Message]) -> Iterator[tuple[int, bytes]]:
    """Version and bytes of the recorded requests of a class, without those that end later."""
    for frame in recorded()[cls.spec.key or 0, "req"]:
        data = base64.b64decode(frame["b64"])
        _, body = decode_request_header(data)
        if decode(cls, frame["version"], data, body)[1] == len(data):
            yield frame["version"], data


def changed(data: bytes, choice: random.Random) -> Iterator[bytes]:
    """The same bytes with one of them changed, left out or added, or cut off."""
    for at in range(len(data)) if len(data) < 200 else choice.sample(range(len(data)), 200):
        yield data[:at] + bytes([choice.randrange(256)]) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at] + bytes([choice.choice((0, 1, 0x80))]) + data[at:]
        yield data[:at]


def as_decoded(cls: type[Message], data: bytes) -> tuple[Any, Message] | None:
    """Header and message; None if the bytes are no such request, or go on behind it."""
    try:
        header, body = decode_request_header(data)
        message, end = decode(cls, header.api_version, data, body)
    except ProtocolError:
        return None
    return (header, message) if end == len(data) else None


@pytest.mark.parametrize("cls", REPEATED)
def test_what_a_template_reads_is_what_the_decoder_reads(cls: type[Message]) -> None:
    choice = random.Random(cls.__name__)
    frames = list(requests_of(cls))
    assert {version for version, _ in frames} >= {cls.spec.versions.highest - 1}
    fitting = 0
    for version, data in frames:
        header, body = decode_request_header(data)
        known, _ = decode(cls, version, data, body)
        template = Template.of(cls, version, memoryview(data), body)
        for other in (data, *changed(data, choice)):
            padded = bytearray(b"\0\0\0" + other + b"\0\0\0")
            values = template.read(padded, 3, 3 + len(other))
            if values is None:
                assert other != data
                continue
            fitting += 1
            decoded = as_decoded(cls, other)
            assert decoded is not None, (version, other)
            assert decoded[0] == header._replace(correlation_id=values[0])
            message = copied(known)
            for (target, name), value in zip(
                targets_of(template, message), values[1:], strict=True
            ):
                setattr(target, name, value)
            assert decoded[1] == message, (version, other)
    assert fitting > 4 * len(frames)
