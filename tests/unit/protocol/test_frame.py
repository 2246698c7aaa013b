from __future__ import annotations

import pytest

from kbroker.errors import ProtocolError
from kbroker.protocol.frame import frame_size, next_frame
from tests.fakes.requests.frame_decoder import FrameDecoder

FRAMES = [b"ab", b"", b"x" * 8, b"c"]
STREAM = b"".join(len(frame).to_bytes(4, "big") + frame for frame in FRAMES)


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_stream_cut_anywhere_gives_the_same_frames(cut: int) -> None:
    decoder = FrameDecoder(max_bytes=8)

    assert [*decoder.feed(STREAM[:cut]), *decoder.feed(STREAM[cut:])] == FRAMES


def test_stream_byte_by_byte_gives_the_same_frames() -> None:
    decoder = FrameDecoder(max_bytes=8)

    assert [frame for byte in STREAM for frame in decoder.feed(bytes((byte,)))] == FRAMES


def test_frames_that_were_not_taken_come_with_the_next_chunk() -> None:
    decoder = FrameDecoder(max_bytes=8)

    first = next(decoder.feed(STREAM[:-1]))

    assert [first, *decoder.feed(STREAM[-1:])] == FRAMES


def test_good_frames_before_a_bad_size_are_still_given() -> None:
    frames = FrameDecoder(max_bytes=8).feed(b"\0\0\0\x01a\xff\xff\xff\xff")

    assert next(frames) == b"a"
    with pytest.raises(ProtocolError, match="frame of -1 bytes, limit 8"):
        next(frames)


def test_size_is_refused_before_its_bytes_arrive() -> None:
    with pytest.raises(ProtocolError, match="frame of 9 bytes, limit 8"):
        next_frame(b"\0\0\0\x09", 0, 4, 8)


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"POST /topics", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "TLS"),
    ],
)
def test_refusal_names_what_the_other_side_seems_to_speak(start: bytes, hint: str) -> None:
    with pytest.raises(ProtocolError, match=hint):
        list(FrameDecoder(max_bytes=104_857_600).feed(start))


def test_frame_is_found_within_a_part_of_a_buffer() -> None:
    buffer = bytearray(b"??\0\0\0\x02ab\0\0\0\x01c??")

    assert next_frame(buffer, 2, 13, 100) == (6, 8)
    assert next_frame(memoryview(buffer), 8, 13, 100) == (12, 13)
    assert next_frame(buffer, 8, 12, 100) is None
    assert next_frame(buffer, 8, 11, 100) is None


def test_size_of_an_unfinished_frame_is_told() -> None:
    assert frame_size(b"?\0\0\0\x05a", 1, 6) == 9
    assert frame_size(b"\0\0\0\x05", 0, 3) == 4
