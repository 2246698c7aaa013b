"""Old messages that are unpacked piece by piece: what is walked, read and converted is the same
wherever pieces end, and little is held meanwhile.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pytest

from kbroker.errors import ErrorCode, KafkaError
from kbroker.record import record_batch
from kbroker.record.codecs.payload import PIECE_BYTES
from kbroker.record.compression import GZIP
from kbroker.record.default_record import Record
from kbroker.record.legacy_builder import build_legacy
from kbroker.record.legacy_record import any_records, first_offset, read_any_header
from kbroker.record.message_stream import MessageStream, WalkedMessages
from kbroker.record.old_messages import OldMessages
from kbroker.record.piece_stream import PieceStream
from kbroker.record.record_batch import BatchOptions, join_pieces, unsealed_header
from kbroker.record.up_conversion import up_converted_pieces

MANY = [
    Record(
        index,
        1_000 + index * 7 % 100,
        None if index % 3 else b"key" * (index % 40),
        None if index % 11 == 5 else b"v" * (index * 37 % 300),
    )
    for index in range(200)
]
SIZES = pytest.mark.parametrize("size", [1, 2, 7, 64, 1_000, 100_000])
MAGICS = pytest.mark.parametrize("magic", [0, 1])


@pytest.fixture
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.record.piece_stream._LEAST_MORE_BYTES", 1)
    monkeypatch.setattr("kbroker.record.message_stream._LONG_BYTES", 150)


def cut(plain: bytes, size: int) -> Iterator[bytes]:
    return (plain[at : at + size] for at in range(0, len(plain), size))


def stream_of(plain: bytes, magic: int = 1, size: int = 1_000) -> MessageStream:
    return MessageStream(cut(plain, size), magic)


def as_stored(record: Record, magic: int) -> Record:
    return record if magic else record._replace(timestamp=-1)


@SIZES
@MAGICS
@pytest.mark.usefixtures("short_pieces")
def test_messages_in_pieces_are_those_of_the_whole(size: int, magic: int) -> None:
    plain = build_legacy(MANY, magic)

    walked = stream_of(plain, magic, size).walk(checks_crc=True)

    times = (1_000, 1_000, 1_099) if magic else (-1, -1, -1)
    keyless = sum(record.key is None for record in MANY)
    assert walked._replace(longest_bytes=0) == WalkedMessages(
        200, 0, 199, True, *times, keyless, 0, len(plain)
    )
    assert list(stream_of(plain, magic, size).records(200)) == [as_stored(r, magic) for r in MANY]


@SIZES
@MAGICS
@pytest.mark.usefixtures("short_pieces")
def test_messages_go_up_alike_wherever_pieces_end(
    size: int, magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = OldMessages.in_set(magic, build_legacy(MANY, magic))
    monkeypatch.setattr(
        messages, "stream", lambda: stream_of(build_legacy(MANY, magic), magic, size)
    )
    first, newest = (1_000, 1_099) if magic else (-1, -1)

    header = unsealed_header(
        BatchOptions(),
        base_offset=5,
        last_offset=204,
        base_timestamp=first,
        max_timestamp=newest,
        record_count=200,
    )
    batch = join_pieces(header, up_converted_pieces(messages, 200, first))

    placed = [as_stored(r, magic)._replace(offset=5 + r.offset) for r in MANY]
    assert batch == record_batch.build(placed, base_offset=5)


@pytest.mark.parametrize("size", [30, 400])
@pytest.mark.parametrize("missing", [1, 20, 200])
@pytest.mark.usefixtures("short_pieces")
def test_a_message_that_is_cut_off_is_none(size: int, missing: int) -> None:
    plain = build_legacy(MANY[:199], 1) + build_legacy([Record(199, 5, b"k", b"v" * 260)], 1)

    walked = stream_of(plain[:-missing], 1, size).walk(checks_crc=True)

    assert (walked.record_count, walked.last_offset) == (199, 198)


def sealed(message: bytes) -> bytes:
    return message[:12] + struct.pack(">I", zlib.crc32(message[16:])) + message[16:]


def with_length_of_value(message: bytes, length: int) -> bytes:
    at = 12 + 4 + 2 + 8 + 4 + 1
    return sealed(message[:at] + struct.pack(">i", length) + message[at + 4 :])


def one(size: int = 300, magic: int = 1) -> bytes:
    return build_legacy([Record(0, 5, b"k", b"v" * size)], magic)


BROKEN = {
    "another format": (one(magic=0), ErrorCode.INVALID_RECORD),
    "a format that is none": (one()[:16] + b"\x07" + one()[17:], ErrorCode.CORRUPT_MESSAGE),
    "wrapped again": (sealed(one()[:17] + b"\x01" + one()[18:]), ErrorCode.INVALID_RECORD),
    "a length that cannot be": (one()[:8] + b"\0\0\0\x05" + one()[12:], ErrorCode.CORRUPT_MESSAGE),
    "a length that cannot be, at the end": (bytes(11) + b"\5\0", ErrorCode.CORRUPT_MESSAGE),
    "a length below 0": (one()[:8] + b"\xff" * 4 + one()[12:], ErrorCode.CORRUPT_MESSAGE),
    "a value beyond the end": (with_length_of_value(one(), 301), ErrorCode.INVALID_RECORD),
    "a wrong checksum": (one()[:-1] + b"w", ErrorCode.CORRUPT_MESSAGE),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("size", [30, 10_000])
@pytest.mark.parametrize("behind", [b"", one(5)])
@pytest.mark.usefixtures("short_pieces")
def test_what_is_broken_is_refused_wherever_pieces_end(kind: str, size: int, behind: bytes) -> None:
    broken, code = BROKEN[kind]

    with pytest.raises(KafkaError) as caught:
        stream_of(one() + broken + behind, 1, size).walk(checks_crc=True)

    assert caught.value.code is code


def test_checksums_count_where_they_are_asked_for() -> None:
    plain = one()[:-1] + b"w"

    assert stream_of(plain).walk().record_count == 1
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        stream_of(plain).walk(checks_crc=True)


@pytest.mark.parametrize("size", [30, 10_000])
@pytest.mark.usefixtures("short_pieces")
def test_what_follows_a_value_is_dropped(size: int) -> None:
    plain = with_length_of_value(one(), 290) + with_length_of_value(one(), -1) + one(3)
    messages = OldMessages.in_set(1, plain)

    found = [record.value for record in stream_of(plain, 1, size).records(3)]

    assert found == [b"v" * 290, None, b"vvv"]
    body = b"".join(up_converted_pieces(messages, 3, 0))
    assert body.count(b"v") == 293


@MAGICS
def test_a_message_larger_than_any_piece_is_passed_over_in_little_memory(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    more = PieceStream.more

    def watched(stream: PieceStream) -> bool:
        found = more(stream)
        held.append(len(stream.held))
        return found

    monkeypatch.setattr(PieceStream, "more", watched)
    records = [Record(0, 10, b"k", bytes(20 * PIECE_BYTES)), Record(1, 20, None, b"last")]
    message = memoryview(build_legacy(records, magic, GZIP))
    messages = OldMessages.wrapped(read_any_header(message), message)

    walked = messages.walk(checks_crc=True)
    written = sum(map(len, up_converted_pieces(messages, 2, 10)))

    assert (walked.record_count, walked.keyless) == (2, 1)
    assert walked.longest_bytes > 20 * PIECE_BYTES
    assert written > 20 * PIECE_BYTES
    assert max(held) <= 3 * PIECE_BYTES


def test_the_first_offset_of_a_wrapper_is_told_however_much_it_unpacks_to() -> None:
    records = [Record(7, 10, b"k", bytes(70 * PIECE_BYTES)), Record(9, 20, None, b"last")]
    message = build_legacy(records, 1, GZIP)

    assert first_offset(read_any_header(message), message) == 7
    assert [(each.offset, len(each.value or b"")) for each in any_records(message)] == [
        (7, 70 * PIECE_BYTES),
        (9, 4),
    ]
