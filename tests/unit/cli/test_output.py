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


@pytest.mark.parametrize("width", [80, 32])
def test_a_terminal_that_is_too_narrow_gets_broken_heads_and_whole_values(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    print_rows(ROWS, ("group", "committed_offset"), "table")

    said = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    heads = {"COMMITTED_OFFSET"} if width == 80 else {"COMMITTED", "OFFSET"}
    assert heads <= set(said.split())
    assert ROWS[0]["group"] in "".join(said.split()).replace("12", "")
    assert max(map(len, said.splitlines())) <= width
