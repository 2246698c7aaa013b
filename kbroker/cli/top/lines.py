"""Rows of a table as lines: what does not fit is cut, so that a row stays a line. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kbroker.cli.shown.fitted_table import columns_of
from kbroker.cli.top.tables import Column, Table

_GAP: Final = "  "
_CUT: Final = "…"
_DOWN, _UP = "▼", "▲"


def head_line(table: Table, width: int, sorts_by: int, *, is_reversed: bool) -> str:
    """Return the heads of a table, with a mark at the column that it is sorted by."""
    columns = table.visible(width)
    sorted_by = table.columns[sorts_by]
    mark = _DOWN if sorted_by.is_number is not is_reversed else _UP
    heads = [mark + each.head if each is sorted_by else each.head for each in columns]
    return _line(columns, heads, width)


def row_line(table: Table, row: Any, width: int) -> str:
    """Return the line of a row, as wide as the terminal."""
    columns = table.visible(width)
    return _line(columns, [column.text(row) for column in columns], width)


def cut(text: str, width: int) -> str:
    """Return a text in so many columns of a terminal, cut or filled up."""
    taken = columns_of(text)
    if taken <= width:
        return text + " " * (width - taken)
    if width < 1:
        return ""
    while taken > width - 1:
        taken -= columns_of(text[-1])
        text = text[:-1]
    return text + _CUT + " " * (width - 1 - taken)


def _line(columns: Sequence[Column], cells: Sequence[str], width: int) -> str:
    others = sum(column.width + len(_GAP) for column in columns[1:])
    name = cut(cells[0], max(width - others, 1))
    texts = [
        cell.rjust(column.width) if column.is_number else cut(cell, column.width)
        for column, cell in zip(columns[1:], cells[1:], strict=True)
    ]
    return cut(_GAP.join([name, *texts]), width)
