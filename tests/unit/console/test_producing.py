"""What a person enters as a key or a value."""

from __future__ import annotations

import pytest

from kbroker.console.producing import entered


@pytest.mark.parametrize(
    ("text", "form", "data"),
    [
        ("grüße", "text", "grüße".encode()),
        ("", "text", b""),
        ("", "null", None),
        ('{"a": 1.10}', "json", b'{"a": 1.10}'),
        ("00 ff", "hex", b"\0\xff"),
        ("AP8=\n", "base64", b"\0\xff"),
        ("42", "int32", b"\0\0\0\x2a"),
        ("-1", "int64", b"\xff" * 8),
    ],
)
def test_bytes_are_what_was_entered(text: str, form: str, data: bytes | None) -> None:
    assert entered(text, form) == data


@pytest.mark.parametrize(
    ("text", "form", "said"),
    [
        ("\ud800", "text", "half a character at 1"),
        ("{", "json", "not JSON at line 1, column 2"),
        ("[" * 100_000, "json", "it is not JSON"),
        ("0", "hex", "hexadecimal digits"),
        ("=", "base64", "not base64"),
        ("2147483648", "int32", "whole number of 4 bytes"),
        ("x", "int64", "whole number of 8 bytes"),
        ("x", "txt", "'txt' is none of text, json"),
    ],
)
def test_what_cannot_be_bytes_is_refused_with_a_sentence(text: str, form: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        entered(text, form)
