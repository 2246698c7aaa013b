"""Rows that are printed as they come."""

from __future__ import annotations

import sys

import pytest

from kbroker.cli.shown.output import print_rows

COLUMNS = ("key", "is_whole")
ROWS = [
    {"key": None, "is_whole": True},
    {"key": "", "is_whole": False},
    {"key": "ß", "is_whole": True},
    {"key": {"base64": "//4="}, "is_whole": True},
]


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("csv", 'key,is_whole\n,true\n"",false\nß,true\n"{""base64"": ""//4=""}",true\n'),
        (
            "jsonl",
            '{"key": null, "is_whole": true}\n{"key": "", "is_whole": false}\n'
            '{"key": "ß", "is_whole": true}\n{"key": {"base64": "//4="}, "is_whole": true}\n',
        ),
    ],
)
def test_null_empty_and_binary_differ(
    output: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_rows(iter(ROWS), COLUMNS, output)

    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("output", "said"), [("table", ""), ("json", "[]\n"), ("jsonl", ""), ("csv", "key,is_whole\n")]
)
def test_no_rows_have_nothing_around_them(
    output: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not print_rows(iter(()), COLUMNS, output)

    assert capsys.readouterr().out == said


def test_a_long_table_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(({"key": str(number)} for number in range(500)), ("key",), "table")

    printed = capsys.readouterr().out.split()
    assert printed == ["KEY", *map(str, range(500))]


def test_a_terminal_too_narrow_for_a_row_gets_a_line_per_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "9")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_rows(iter(ROWS[2:3] * 2), COLUMNS, "table")

    assert capsys.readouterr().out == "KEY       ß\nIS_WHOLE  yes\n\nKEY       ß\nIS_WHOLE  yes\n"


def test_a_row_that_is_wider_than_the_first_ones_is_whole(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = ({"key": "x" * (4 + number // 200), "n": number} for number in range(201))
    print_rows(rows, ("key", "n"), "table")

    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[200], lines[201]) == ("KEY   N", "xxxx  199", "xxxxx  200")
