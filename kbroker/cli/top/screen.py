"""The screen of `kbroker top`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from kbroker.cli.top.figures import inert
from kbroker.cli.top.lines import head_line, row_line
from kbroker.cli.top.look import Look, Trouble
from kbroker.cli.top.row_list import RowList
from kbroker.cli.top.tables import CONNECTIONS, TABLES, Table
from kbroker.cli.top.wanted import Wanted
from kbroker.wording import counted

_KEYS: Final = "1-4 table  s sort  r reverse  / filter  i internal  space hold  q quit"
_THEMES: Final = ("ansi-dark", "textual-ansi")  # of the terminal's own colours, newer name first
_WAITS: Final = "asking ..."
_NO_RATES: Final = "rates follow with the second look"


class TopScreen(App[None]):
    """Shows the looks at a cluster as they come."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { overflow: hidden; }
    Static, Input { height: 1; width: 100%; text-wrap: nowrap; text-overflow: ellipsis; }
    RowList { height: 1fr; overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    #title, #head { text-style: bold; }
    #keys { text-style: dim; }
    #said.trouble { color: ansi_red; text-style: bold; }
    #filter { display: none; }
    .filters #filter { display: block; }
    .filters #said { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(n), f"table({n - 1})") for n in range(1, len(TABLES) + 1)),
        Binding("tab", "next_table(1)", priority=True),
        Binding("shift+tab", "next_table(-1)", priority=True),
        Binding("s", "sort"),
        Binding("r", "reverse"),
        Binding("slash", "filter"),
        Binding("i", "internal"),
        Binding("space", "hold"),
        Binding("escape", "all_rows"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(self, looks: AsyncIterator[Look | Trouble], address: str, wanted: Wanted) -> None:
        """`address` is that of the cluster, as the user gave it."""
        super().__init__()
        self.theme = next(name for name in _THEMES if name in self.available_themes)
        self._looks = looks
        self._address = address
        self._wanted = wanted
        self._look: Look | None = None
        self._trouble = ""
        self._is_held = False
        self._table: Table = TABLES[0]
        self._sorting = {table.title: (table.sorts_by, False) for table in TABLES}

    def compose(self) -> ComposeResult:
        """Make the lines of the screen, from the first to the last."""
        yield Static(id="title", markup=False)
        yield Static(id="tables", markup=False)
        yield Static(id="head", markup=False)
        yield RowList()
        yield Static(id="said", markup=False)
        yield Input(
            id="filter", compact=True, value=self._wanted.text, placeholder="part of a name"
        )
        yield Static(_KEYS, id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to watch the cluster, with the keys for its rows."""
        self.query_one(RowList).focus()
        self.run_worker(self._watch())

    def on_resize(self, _: events.Resize) -> None:
        """Lay out the lines again, once the widgets have their new sizes."""
        self.call_after_refresh(self._draw)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while somebody types."""
        self._wanted = replace(self._wanted, text=event.value)
        self._draw()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Go back to the table, with the filter in force."""
        self._end_filter()

    def action_table(self, number: int) -> None:
        """Show a table, by its place."""
        self._table = TABLES[number]
        self.query_one(RowList).scroll_home(animate=False)
        self._draw()

    def action_next_table(self, step: int) -> None:
        """Show the table beside this one."""
        self.action_table((TABLES.index(self._table) + step) % len(TABLES))

    def action_sort(self) -> None:
        """Sort by the next column on the screen."""
        visible = len(self._table.visible(self.query_one(RowList).columns))
        column, _ = self._sorting[self._table.title]
        self._sorting[self._table.title] = ((column + 1) % visible, False)
        self._draw()

    def action_reverse(self) -> None:
        """Turn the order round."""
        column, is_reversed = self._sorting[self._table.title]
        self._sorting[self._table.title] = (column, not is_reversed)
        self._draw()

    def action_internal(self) -> None:
        """Show what is internal, or no longer."""
        self._wanted = replace(self._wanted, has_internal=not self._wanted.has_internal)
        self._draw()

    def action_hold(self) -> None:
        """Keep the screen as it is, or go on."""
        self._is_held = not self._is_held
        self._draw()

    def action_filter(self) -> None:
        """Ask for a part of the names to show."""
        self.screen.add_class("filters")
        self.query_one(Input).focus()

    def action_all_rows(self) -> None:
        """Show all names again."""
        self.query_one(Input).value = ""
        self._end_filter()

    def _end_filter(self) -> None:
        self.screen.remove_class("filters")
        self.query_one(RowList).focus()

    async def _watch(self) -> None:
        async for seen in self._looks:
            if isinstance(seen, Trouble):
                self._trouble = f"{datetime.now():%H:%M:%S} {seen.sentence}; asking again"
            else:
                self._trouble = ""
                if not self._is_held:
                    self._look = seen
            self._draw()

    def _draw(self) -> None:
        """Bring the screen up to date: what is the same is not sent to the terminal."""
        table, rows = self._table, self._rows()
        column, is_reversed = self._sorting[table.title]
        shown = self.query_one(RowList)
        ordered = table.ordered(rows, column, is_reversed=is_reversed)
        shown.show_rows(ordered, partial(row_line, table))
        self._say("title", self._title())
        self._say("tables", self._names_of_tables(len(ordered)))
        self._say("head", head_line(table, shown.columns, column, is_reversed=is_reversed))
        self._say("said", inert(self._trouble or self._note()))
        self.query_one("#said").set_class(bool(self._trouble), "trouble")

    def _say(self, line: str, content: str | Text) -> None:
        widget = self.query_one(f"#{line}", Static)
        if widget.content != content:
            widget.update(content, layout=False)

    def _rows(self) -> Sequence[Any]:
        return () if self._look is None else self._wanted.rows(self._look, self._table)

    def _title(self) -> str:
        if self._look is None:
            return f"kbroker top  {self._address}  {_WAITS}"
        sample = self._look.sample
        counts = (
            counted(len(sample.brokers), "broker"),
            counted(len(sample.topics), "topic"),
            counted(sum(topic.partitions for topic in sample.topics.values()), "partition"),
            counted(len(sample.groups), "group"),
        )
        return f"kbroker top  {self._address}  {', '.join(counts)}"

    def _names_of_tables(self, rows: int) -> Text:
        line = Text()
        for number, table in enumerate(TABLES, 1):
            style = "reverse" if table is self._table else ""
            line.append(f" {number} {table.title} ", style)
            line.append(" ")
        if self._wanted.text:
            line.append(f" {rows:,} with '{inert(self._wanted.text)}'", "bold")
        if self._is_held:
            line.append("  held", "bold")
        return line

    def _note(self) -> str:
        if self._look is None:
            return ""
        connections = self._look.connections.gaps if self._table is CONNECTIONS else ()
        gaps = (*connections, *self._look.sample.gaps)
        if not gaps and self._look.seconds is None:
            return _NO_RATES
        more = f" (and {len(gaps) - 1} more: --once prints them)" if len(gaps) > 1 else ""
        return f"{gaps[0]}{more}" if gaps else ""
