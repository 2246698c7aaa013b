"""Pages of long lists."""

from __future__ import annotations

import pytest

from kbroker.console.pages import MOST_ROWS, Wanted, page_of

NAMES = [f"topic-{number:02}" for number in range(25)]


@pytest.mark.parametrize(
    ("wanted", "rows", "number", "pages", "total"),
    [
        (Wanted(rows=10), NAMES[:10], 1, 3, 25),
        (Wanted(rows=10, page=3), NAMES[20:], 3, 3, 25),
        (Wanted(rows=10, page=9), NAMES[20:], 3, 3, 25),
        (Wanted(rows=10, page=0), NAMES[:10], 1, 3, 25),
        (Wanted(rows=0), NAMES[:1], 1, 25, 25),
        (Wanted(search="PIC-1", rows=4), NAMES[10:14], 1, 3, 10),
        (Wanted(search="none"), [], 1, 1, 0),
    ],
)
def test_a_page_holds_rows_whose_names_fit(
    wanted: Wanted, rows: list[str], number: int, pages: int, total: int
) -> None:
    page = page_of(NAMES, wanted, str)

    assert (list(page.rows), page.number, page.pages, page.total) == (rows, number, pages, total)


def test_a_page_is_never_too_long() -> None:
    page = page_of(["x"] * 10_000, Wanted(rows=10**9), str)

    assert len(page.rows) == MOST_ROWS
