"""What a screen shows of keys and values, and what it takes them for."""

from __future__ import annotations

import json

import pytest

from kbroker.console.shown_values import (
    CHOICES,
    OPEN_BYTES,
    check_choice,
    laid_out,
    shown_value,
)


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (None, "null", ""),
        (b"", "empty", ""),
        (b"hello", "text", "hello"),
        ("grüße".encode(), "text", "grüße"),
        (b"a\tb\n", "text", "a\tb\n"),
        (b"42", "text", "42"),
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b' [1, "x"]', "json", ' [1, "x"]'),
        (b"{broken", "text", "{broken"),
        (b"[" * 3_000, "text", "[" * 3_000),
        (b"\0\0\0\x2a", "int", "42"),
        (b"\xff" * 8, "int", "-1"),
        (b"\xff\xfe\xfd", "hex", "fffefd"),
        (b"\x1b[31m!", "hex", "1b5b33316d21"),
        (b"\0\0\0\0\x07hello", "schema 7", "hello"),
        (b"\0\0\0\0\x07\x02\xff", "schema 7", "02ff"),
    ],
)
def test_bytes_are_taken_for_what_they_look_like(data: bytes | None, kind: str, text: str) -> None:
    shown = shown_value(data)

    assert (shown.kind, shown.text) == (kind, text)
    assert shown.size_bytes == (-1 if data is None else len(data))
    assert not shown.is_cut


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x" * 20, "x" * 10),
        ("ä".encode() * 9 + b"xx", "ä" * 5),
        (b"x" + "ä".encode() * 9, "xääää"),  # not half a letter
        (b"\xff" * 20, "ff" * 10),
        (b'{"a": "bbbbbbbbbbbbbbbbb"}', '{"a": "bbb'),
    ],
)
def test_a_large_value_is_cut_and_says_so(data: bytes, text: str) -> None:
    shown = shown_value(data, most_bytes=10)

    assert (shown.text, shown.is_cut, shown.size_bytes) == (text, True, len(data))


@pytest.mark.parametrize(
    ("decoder", "data", "text"),
    [
        ("utf-8", b"\x1b[31m", "\x1b[31m"),
        ("int", b"\0a", "97"),
        ("hex", b"ab", "6162"),
        ("base64", b"ab", "YWI="),
        ("json", b'{"a":1.10}', '{"a":1.10}'),
    ],
)
def test_a_chosen_decoder_is_used(decoder: str, data: bytes, text: str) -> None:
    assert shown_value(data, decoder).text == text


def test_zeros_without_end_are_no_schema_in_a_schema() -> None:
    shown = shown_value(bytes(1_000_000), most_bytes=4_096)

    assert (shown.kind, shown.size_bytes, shown.is_cut) == ("schema 0", 1_000_000, True)
    assert shown.text == "00" * 4_096


def test_bytes_that_a_decoder_cannot_read_are_shown_with_its_reason() -> None:
    shown = shown_value(b"hello", "int")

    assert (shown.kind, shown.text) == ("text", "hello")
    assert shown.reason == "an int has 1, 2, 4 or 8 bytes, not 5"


def test_json_of_several_lines_keeps_what_it_says() -> None:
    data = b'{"a":[1,2],"b":"\xc3\xa4"}'

    shown = laid_out(shown_value(data), 1_000)

    assert json.loads(shown.text) == json.loads(data)
    assert len(shown.text.splitlines()) == 7


@pytest.mark.parametrize("value", [list(range(500_000)), ["x" * 500_000], "x" * 500_000])
def test_of_a_long_value_the_beginning_is_laid_out(value: object) -> None:
    text = json.dumps(value, separators=(",", ":"))

    shown = laid_out(shown_value(text.encode(), most_bytes=OPEN_BYTES * 4), 100)

    assert len(shown.text) <= 100
    assert text.startswith("".join(shown.text.split()))
    assert shown.is_cut
    assert shown.size_bytes == len(text)


def test_no_screen_reads_a_file_of_the_server() -> None:
    assert all(":" not in name for name in CHOICES)
    with pytest.raises(ValueError, match=r"decoder 'avro:/etc/passwd' is none of auto, utf-8"):
        check_choice("avro:/etc/passwd")
