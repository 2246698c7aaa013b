from __future__ import annotations

import re
import sys

import pytest

from kbroker.cli.output import filled, print_rows

ROWS = [{"group": "a-rather-long-name-of-a-group", "committed_offset": 12, "lag_s": None}]
COLUMNS = ("group", "committed_offset", "lag_s")


def test_columns_in_which_no_row_says_anything_are_left_out() -> None:
    assert filled(ROWS, COLUMNS) == ("group", "committed_offset")
    assert filled([], COLUMNS) == COLUMNS


def printed(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """The lines that a terminal of this width gets."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_rows([*ROWS, *ROWS], ("group", "committed_offset"), "table")
    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    return [line.rstrip() for line in said.splitlines()]


def test_a_wide_terminal_gets_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head, first, _ = printed(80, monkeypatch, capsys)

    assert head.split() == ["GROUP", "COMMITTED_OFFSET"]
    assert first.split() == ["a-rather-long-name-of-a-group", "12"]


def test_a_narrow_terminal_gets_heads_of_several_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(42, monkeypatch, capsys)

    assert [line.split() for line in lines[:3]] == [
        ["COMMITTED"],
        ["GROUP", "OFFSET"],
        ["a-rather-long-name-of-a-group", "12"],
    ]
    assert max(map(len, lines)) <= 42


def test_a_terminal_too_narrow_for_a_table_gets_a_line_per_value_and_no_broken_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(38, monkeypatch, capsys) == [
        "GROUP             a-rather-long-name-of-a-group",
        "COMMITTED_OFFSET  12",
        "",
        "GROUP             a-rather-long-name-of-a-group",
        "COMMITTED_OFFSET  12",
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("table", "NAME  INTERNAL\né     yes\n"),
        ("jsonl", '{"name": "é", "internal": true}\n'),
        ("csv", "name,internal\né,true\n"),
    ],
)
def test_yes_and_letters_beyond_ascii_are_written_as_each_format_wants_them(
    output: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([{"name": "é", "internal": True}], ("name", "internal"), output)

    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("output", "expected"), [("table", ""), ("json", "[]\n"), ("jsonl", ""), ("csv", "name\n")]
)
def test_no_rows_are_no_table(
    output: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([], ("name",), output)

    assert capsys.readouterr().out == expected


def test_a_terminal_too_narrow_for_the_heads_gets_a_line_per_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "15")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_rows([*ROWS, *ROWS], COLUMNS, "table")

    assert capsys.readouterr().out.splitlines() == [
        "GROUP             a-rather-long-name-of-a-group",
        "COMMITTED_OFFSET  12",
        "LAG_S",
        "",
        "GROUP             a-rather-long-name-of-a-group",
        "COMMITTED_OFFSET  12",
        "LAG_S",
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("table", "NAME  INTERNAL\né     yes\n"),
        ("jsonl", '{"name": "é", "internal": true}\n'),
        ("csv", "name,internal\né,true\n"),
    ],
)
def test_yes_and_letters_beyond_ascii_are_written_as_each_format_wants_them(
    output: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([{"name": "é", "internal": True}], ("name", "internal"), output)

    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("output", "expected"), [("table", ""), ("json", "[]\n"), ("jsonl", ""), ("csv", "name\n")]
)
def test_no_rows_are_no_table(
    output: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([], ("name",), output)

    assert capsys.readouterr().out == expected
