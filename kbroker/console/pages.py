"""Pages of long lists: which rows are shown, and how many there are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

MOST_ROWS: Final = 500

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The part of a list that is wanted: rows whose names hold a text, and of those a page,
    from 1 on.
    """

    search: str = ""
    page: int = 1
    rows: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[RowT]):
    """Rows of one page; `total` counts those of all pages. `number` is that of a page which is
    there, also if a later one was wanted.
    """

    rows: tuple[RowT, ...]
    total: int
    number: int
    pages: int


def page_of(entries: Sequence[RowT], wanted: Wanted, name_of: Callable[[RowT], str]) -> Page[RowT]:
    """Return the wanted page of the entries whose names hold the text, whatever its case."""
    text = wanted.search.casefold()
    found = [entry for entry in entries if text in name_of(entry).casefold()]
    size = min(max(wanted.rows, 1), MOST_ROWS)
    pages = max(-(-len(found) // size), 1)
    number = min(max(wanted.page, 1), pages)
    rows = tuple(found[(number - 1) * size : number * size])
    return Page(rows=rows, total=len(found), number=number, pages=pages)
