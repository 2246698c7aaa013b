"""RowList: a widget that shows rows as lines, of which only those on the screen are ever made.

Law: new rows refresh the lines that differ, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.segment import Segment
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

LineOf = Callable[[Any, int], str]
"""Makes the line of a row, in so many columns of the terminal."""


class RowList(ScrollView):
    """Rows that can be scrolled."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Any] = ()
        self._line_of: LineOf = lambda _row, _width: ""

    @property
    def columns(self) -> int:
        """The columns of the terminal that a line has."""
        return int(self.scrollable_content_region.width)

    def show_rows(self, rows: Sequence[Any], line_of: LineOf) -> None:
        """Show other rows, at the same place as far as there are as many."""
        before, count = self._lines(), len(self._rows)
        self._rows, self._line_of = rows, line_of
        if len(rows) != count:
            self.virtual_size = Size(0, len(rows))
        for y, (old, new) in enumerate(zip(before, self._lines(), strict=True)):
            if old != new:
                self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Return a line of the screen."""
        width = self.columns
        segments = [Segment(self._line(y, width), self.rich_style)]
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _lines(self) -> list[str]:
        width = self.columns
        return [self._line(y, width) for y in range(self.scrollable_content_region.height)]

    def _line(self, y: int, width: int) -> str:
        number = self.scroll_offset.y + y
        return self._line_of(self._rows[number], width) if number < len(self._rows) else ""
