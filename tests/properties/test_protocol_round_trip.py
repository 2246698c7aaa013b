"""What is encoded is decoded to the same value, and no bytes whatever upset a decoder."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbroker.errors import ErrorCode, ProtocolError
from kbroker.protocol.codec import decode, encode, encode_pieces
from kbroker.protocol.header import decode_request_header
from kbroker.protocol.schema import Message, response_class
from tests.golden.wire.declared_messages import all_messages
from tests.properties.message_samples import every_version, random_struct, versions_of

REQUESTS = [cls for cls in all_messages() if cls.__name__.endswith("Request")]
any_version = st.sampled_from(every_version())
seeds = st.integers(0, 2**32)


def name(cls: type[Message]) -> str:
    return cls.__name__


@pytest.mark.parametrize("cls", all_messages(), ids=name)
def test_decoding_what_was_encoded_gives_an_equal_message(cls: type[Message]) -> None:
    for version in versions_of(cls):
        messages = [random_struct(cls, version, Random(seed)) for seed in range(12)]

        frames = [encode(message, version) for message in messages]

        assert [decode(cls, version, frame) for frame in frames] == [
            (message, len(frame)) for message, frame in zip(messages, frames, strict=True)
        ], version


@pytest.mark.parametrize("cls", all_messages(), ids=name)
def test_a_message_of_defaults_survives(cls: type[Message]) -> None:
    for version in versions_of(cls):
        assert decode(cls, version, encode(cls(), version))[0] == cls(), version


@given(any_version, seeds, st.binary(max_size=40))
@settings(deadline=None)
def test_bytes_before_and_after_a_message_do_not_matter(
    choice: tuple[type[Message], int], seed: int, around: bytes
) -> None:
    cls, version = choice
    message = random_struct(cls, version, Random(seed))
    body = encode(message, version)

    found, end = decode(cls, version, around + body + around, len(around))

    assert (found, end) == (message, len(around) + len(body))


@given(any_version, seeds)
@settings(deadline=None)
def test_pieces_joined_are_the_encoded_message(
    choice: tuple[type[Message], int], seed: int
) -> None:
    cls, version = choice
    message = random_struct(cls, version, Random(seed))

    pieces = encode_pieces(message, version, head=b"head")

    assert b"".join(pieces) == b"head" + encode(message, version)  # type: ignore[arg-type]


@given(any_version, seeds, st.data())
@settings(deadline=None)
def test_a_message_cut_anywhere_is_refused(
    choice: tuple[type[Message], int], seed: int, data: st.DataObject
) -> None:
    cls, version = choice
    body = encode(random_struct(cls, version, Random(seed)), version)
    cut = data.draw(st.integers(0, max(len(body) - 1, 0)))

    with suppress(ProtocolError):
        _, end = decode(cls, version, body[:cut])
        assert end == len(body) == 0


@given(any_version, st.binary(max_size=300))
@settings(max_examples=5 * settings.default.max_examples, deadline=10_000)
def test_any_bytes_give_a_message_or_a_protocol_error(
    choice: tuple[type[Message], int], data: bytes
) -> None:
    with suppress(ProtocolError):
        _, end = decode(*choice, data)
        assert end <= len(data)


@given(any_version, seeds, st.data())
@settings(max_examples=5 * settings.default.max_examples, deadline=10_000)
def test_damaged_messages_give_a_message_or_a_protocol_error(
    choice: tuple[type[Message], int], seed: int, data: st.DataObject
) -> None:
    cls, version = choice
    body = bytearray(encode(random_struct(cls, version, Random(seed)), version))
    positions = st.integers(0, max(len(body) - 1, 0))
    for position, value in data.draw(
        st.lists(st.tuples(positions, st.integers(0, 255)), max_size=4)
    ):
        body[position : position + 1] = bytes((value,))

    with suppress(ProtocolError):
        _, end = decode(cls, version, body)
        assert end <= len(body)


@given(st.binary(max_size=60))
@settings(deadline=10_000)
def test_any_bytes_give_a_header_or_a_protocol_error(data: bytes) -> None:
    with suppress(ProtocolError):
        _, end = decode_request_header(data)
        assert end <= len(data)


@pytest.mark.parametrize("cls", REQUESTS, ids=name)
def test_every_request_has_an_error_response_with_its_code(cls: type[Message]) -> None:
    code = ErrorCode.NOT_COORDINATOR
    for version in versions_of(cls):
        requests = [random_struct(cls, version, Random(seed)) for seed in range(8)]

        answers = [request.error_response(code, version) for request in requests]

        assert {type(answer) for answer in answers} == {response_class(cls)}, version
        assert any(b"\x00\x10" in encode(answer, version) for answer in answers), version
