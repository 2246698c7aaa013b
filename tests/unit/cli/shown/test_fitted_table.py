"""Tables are no wider than they may be, and whole."""

from __future__ import annotations

import pytest

from kbroker.cli.shown.fitted_table import fitted_table

ROWS = [
    ["GROUP", "COMMITTED_OFFSET", "LAG"],
    ["billing-of-orders", "12", "3"],
    ["x", "1000", ""],
]


def lines(width: int | None, rows: list[list[str]] = ROWS) -> list[str]:
    lines_of = fitted_table(rows, width)
    return [line for row in rows for line in lines_of(row)]


@pytest.mark.parametrize("width", [None, 80, 40])
def test_where_there_is_room_a_row_is_a_line(width: int | None) -> None:
    assert lines(width) == [
        "GROUP              COMMITTED_OFFSET  LAG",
        "billing-of-orders  12                3",
        "x                  1000",
    ]


def test_heads_break_first() -> None:
    assert lines(35) == [
        "GROUP              COMMITTED    LAG",
        "                   OFFSET",
        "billing-of-orders  12           3",
        "x                  1000",
    ]


def test_then_long_values_fold_and_heads_stay_whole() -> None:
    assert lines(26) == [
        "GROUP       COMMITTED  LAG",
        "            OFFSET",
        "billing-of  12         3",
        "-orders",
        "x           1000",
    ]


def test_values_fold_between_words_as_long_as_that_is_enough() -> None:
    rows = [["WHAT", "N"], ["a name that is long", "1"]]

    assert lines(10, rows) == ["WHAT     N", "a name   1", "that is", "long"]


@pytest.mark.parametrize("width", range(7, 60))
def test_no_line_is_wider_and_nothing_is_left_out(width: int) -> None:
    found = list(map(fitted_table(ROWS, width), ROWS))

    assert max(len(line) for row in found for line in row) <= width
    for row, cells in zip(found[1:], ROWS[1:], strict=True):
        assert sorted("".join(row).replace(" ", "")) == sorted("".join(cells))


def test_characters_of_two_columns_count_as_two() -> None:
    assert lines(None, [["KEY", "N"], ["日本", "1"]]) == ["KEY   N", "日本  1"]
    assert lines(6, [["KEY", "N"], ["日本", "1"]]) == ["KEY  N", "日   1", "本"]


def test_a_table_may_have_heads_only() -> None:
    assert lines(20, [["A", "B"]]) == ["A  B"]
