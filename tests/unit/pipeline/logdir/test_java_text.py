"""Text as Java decodes it. The replacements are those of `new String(bytes, UTF_8)`."""

from __future__ import annotations

import pytest

from kbroker.pipeline.logdir.java_text import java_text

R = "\ufffd"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        ("größe \N{ROCKET}".encode(), "größe \N{ROCKET}"),
        (b"\x00\x7f", "\x00\x7f"),
        (b"\xff", R),
        (b"a\x80b", f"a{R}b"),
        (b"\xc0\x80", R * 2),
        (b"\xc3", R),
        (b"\xe4\xb8", R),
        (b"\xe4\xb8A", f"{R}A"),
        (b"\xe0\x80\x80", R * 3),
        (b"\xed\xa0\x80", R),
        (b"\xed\xa0\x80\xed\xb0\x80", R * 2),
        (b"\xed\xa0", R),
        (b"\xed\xa0A", f"{R}A"),
        (b"\xed\x9f\xbf", "\ud7ff"),
        (b"\xf0\x9f\x9a", R),
        (b"\xf0\x80\x80\x80", R * 4),
        (b"\xf4\x90\x80\x80", R * 4),
        (b"\xf5\x80\x80\x80", R * 4),
    ],
)
def test_what_is_no_utf8_is_replaced(data: bytes, text: str) -> None:
    assert java_text(data) == text
