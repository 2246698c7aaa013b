from __future__ import annotations

import re
import sys

import pytest

from kbroker.cli.shown.output import duration_text, filled, print_rows, print_text, say

ROWS = [{"group": "a-rather-long-name-of-a-group", "committed_offset": 12, "lag_s": None}]
COLUMNS = ("group", "committed_offset", "lag_s")


def test_columns_in_which_no_row_says_anything_are_left_out() -> None:
    assert filled(ROWS, COLUMNS) == ("group", "committed_offset")
    assert filled([], COLUMNS) == COLUMNS


@pytest.mark.parametrize("width", [80, 42])
def test_a_terminal_that_is_too_narrow_gets_broken_heads_and_whole_values(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_rows(ROWS, ("group", "committed_offset"), "table")

    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    heads = {"COMMITTED_OFFSET"} if width == 80 else {"COMMITTED", "OFFSET"}
    assert heads <= set(said.split())
    assert ROWS[0]["group"] in said.split()
    assert max(map(len, said.splitlines())) <= width


@pytest.mark.parametrize("width", [39, 15])
def test_a_terminal_too_narrow_for_words_gets_a_line_per_value(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
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


@pytest.mark.parametrize("terminal_columns", [80, 8])
def test_a_name_cannot_steer_the_terminal(
    terminal_columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(terminal_columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_rows([{"client_id": "a\x1b]0;b\x07\nc\x9b1mdé\u200d"}], ("client_id",), "table")

    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert (
        "".join(said.split()).removeprefix("CLIENT_ID").removeprefix("CLIENTID")
        == "a\\x1b]0;b\\x07\\nc\\x9b1mdé\u200d"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(12.4, "12 s"), (99.0, "99 s"), (300, "5 min"), (9_000, "2.5 h")]
)
def test_long_times_are_in_larger_units(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


STEERING = "a\x1b[31m\x9b1m\nb"


def test_csv_and_text_for_a_program_have_names_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows([{"group": STEERING}], ("group",), "csv")
    print_text(STEERING)

    assert capsys.readouterr().out == f'group\n"{STEERING}"\n{STEERING}\n'


def test_csv_and_text_on_a_terminal_and_sentences_have_escapes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_rows([{"group": STEERING}], ("group",), "csv")
    print_text(STEERING)
    say(f"{STEERING}: deleted")

    said = capsys.readouterr()
    assert said.out == 'group\n"a\\x1b[31m\\x9b1m\nb"\na\\x1b[31m\\x9b1m\nb\n'
    assert said.err == "a\\x1b[31m\\x9b1m\nb: deleted\n"


@pytest.mark.parametrize(
    ("output", "expected"), [("table", ""), ("json", "[]\n"), ("jsonl", ""), ("csv", "name\n")]
)
def test_no_rows_are_no_table(
    output: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows([], ("name",), output)

    assert capsys.readouterr().out == expected
