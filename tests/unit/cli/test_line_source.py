from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbroker.cli.line_source import LineSource


def lines_of(path: Path) -> list[bytes]:
    with path.open("rb") as stream:
        source = LineSource(stream)
        found = []
        while not source.is_ended:
            found += source.read()
        return found


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\r\nb\r", [b"a\r", b"b\r"]),
        (b"\n\na\n\n", [b"", b"", b"a", b""]),
        (b"\x00\xff\n\x0b\x0c\n", [b"\x00\xff", b"\x0b\x0c"]),
        (b"x" * 3_000_000 + b"\n" + b"y" * 2_000_000, [b"x" * 3_000_000, b"y" * 2_000_000]),
        (b"12345\n" * 400_000, [b"12345"] * 400_000),
    ],
)
def test_nothing_but_line_feeds_is_taken_away(
    tmp_path: Path, content: bytes, lines: list[bytes]
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)

    assert lines_of(path) == lines


def test_a_line_that_comes_in_pieces_is_one() -> None:
    receiving, sending = os.pipe()
    with os.fdopen(receiving, "rb") as stream, os.fdopen(sending, "wb", buffering=0) as writer:
        source = LineSource(stream)

        writer.write(b"one\ntw")
        first = source.read()
        writer.write(b"o")
        second = source.read()
        writer.write(b"\n")
        third = source.read()

    assert (first, second, third) == ([b"one"], [], [b"two"])
