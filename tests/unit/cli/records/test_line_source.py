from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.records.line_form import PartitionChoice, ValueLines
from kbroker.cli.records.line_reader import LineReader, lines_to_first_record
from kbroker.cli.records.line_source import LineSource, PromptedSource


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


def test_what_was_not_read_of_a_file_is_counted_with_the_line_that_was_begun(
    tmp_path: Path,
) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"12345\n" * 200_000)
    with path.open("rb") as stream:
        source = LineSource(stream)
        lines = source.read()

        assert source.unread() == f"{1_200_000 - 6 * len(lines):,} bytes of the input were not read"
        source.read()
        assert source.unread() is None


@pytest.mark.parametrize(
    ("more", "is_open", "said"),
    [
        (b"", False, None),
        (b"", True, "what comes after them was not read"),
        (b"more\n", True, "what comes after them was not read"),
        (b"more\n", False, "what comes after them was not read"),
    ],
)
def test_of_a_pipe_is_told_whether_anything_may_have_been_left(
    more: bytes, is_open: bool, said: str | None
) -> None:
    receiving, sending = os.pipe()
    with os.fdopen(receiving, "rb") as stream:
        with os.fdopen(sending, "wb", buffering=0) as writer:
            source = LineSource(stream)
            writer.write(b"one\n")
            source.read()
            writer.write(more)
            if is_open:
                assert source.unread() == said
        if not is_open:
            assert source.unread() == said


def test_each_line_that_is_typed_is_asked_for_as_by_kafkas_tool(
    capsys: pytest.CaptureFixture[str],
) -> None:
    receiving, sending = os.pipe()
    with os.fdopen(receiving, "rb") as stream:
        with os.fdopen(sending, "wb", buffering=0) as writer:
            source = PromptedSource(stream)
            for typed in (b"one\n", b"tw", b"o\nthree\n"):
                writer.write(typed)
                source.read()
        source.read()

    assert capsys.readouterr().out == ">>>>"


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


# ---- lines that are too long

VALUES = ValueLines(PartitionChoice(count=1, only=0, in_turn=lambda: 0), None, has_nulls=False)
LONG = b"x" * 3_000_000
LIMITED = (
    "line 2: it has more than 2 MiB, which brokers take in no request "
    "(socket.request.max.bytes): is it text, with line feeds?"
)


def read_all(path: Path, content: bytes, *, keep_going: bool) -> tuple[LineReader, int, int]:
    """(the reader at its end, records, bytes that were read)"""
    path.write_bytes(content)
    with path.open("rb") as stream:
        reader = LineReader(LineSource(stream, 2 << 20), VALUES, keep_going=keep_going)
        records = 0
        while not reader.is_ended:
            records += sum(len(part.bodies) for part in reader.read(0))
        return reader, records, os.lseek(stream.fileno(), 0, os.SEEK_CUR)


def test_a_line_that_is_too_long_ends_the_reading_before_it_is_read(tmp_path: Path) -> None:
    content = b"a\n" + LONG * 10 + b"\nb\n"

    reader, records, read = read_all(tmp_path / "lines", content, keep_going=False)

    assert (reader.refusal, records) == (LIMITED, 1)
    assert read <= 4 << 20


@pytest.mark.parametrize("end", [b"", b"\n", b"\nb", b"\n" + LONG + b"\nb\nb\n" + LONG])
def test_a_line_that_is_too_long_is_skipped_and_the_others_are_records(
    tmp_path: Path, end: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"a\n" + LONG + end

    reader, records, _ = read_all(tmp_path / "lines", content, keep_going=True)

    assert records == 1 + end.count(b"b")
    assert reader.bad == 1 + end.count(LONG)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == LIMITED
    assert len(said) == reader.bad


def test_a_first_line_that_is_too_long_is_told_before_there_is_a_topic(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(LONG)
    with path.open("rb") as stream, pytest.raises(CommandError, match="line 1: it has more than 2"):
        lines_to_first_record(LineSource(stream, 2 << 20), VALUES)
