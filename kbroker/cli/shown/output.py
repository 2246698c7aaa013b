"""How commands print: data on standard output as table, json, jsonl or csv; everything else on
standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import click

FORMATS = ("table", "json", "jsonl", "csv")
Row = Mapping[str, Any]
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def output_option(command: CommandT) -> CommandT:
    """The `--output` option of a command that prints rows."""
    return click.option(
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How rows are printed.",
    )(command)


def print_rows(rows: Sequence[Row], columns: Sequence[str], output: str) -> None:
    """Print rows; `columns` are the keys to show, in this order, and the heads of table and csv.

    No rows are an empty list in json, a head in csv, and nothing at all in a table.
    """
    if output in ("json", "jsonl"):
        from kbroker.cli.shown.record_rows import json_text  # 10 ms for help texts

    if output == "json":
        click.echo(json_text([_picked(row, columns) for row in rows], indent=2))
    elif output == "jsonl":
        for row in rows:
            click.echo(json_text(_picked(row, columns)))
    elif output == "csv":
        lines = [csv_line([_csv_text(row.get(name)) for name in columns]) for row in rows]
        print_text("\n".join([csv_line(columns), *lines]))
    elif rows:  # heads above nothing say nothing
        _print_table(rows, columns)


def print_text(text: str) -> None:
    """Print text with names in it: escapes for control characters on a terminal alone."""
    # Elsewhere names are what they are: click would take escapes out.
    click.echo(plain(text) if sys.stdout.isatty() else text, color=True)


def say(message: str) -> None:
    """A line for the person at the terminal; control characters of names in it as escapes."""
    click.echo(plain(message), err=True)


def filled(rows: Sequence[Row], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns in which any row says something; all where there is no row."""
    return tuple(
        name for name in columns if not rows or any(row.get(name) is not None for row in rows)
    )


def counted(number: int, noun: str) -> str:
    """`1 batch`, `2,000 batches`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def named(items: Iterable[object], most: int = 10) -> str:
    """`a, b, c and 4 more`: as many as a line can hold."""
    names = list(map(str, items))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def duration_text(seconds: float) -> str:
    """`12 s`, `3 min` or `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def _picked(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in columns}


def csv_line(texts: Iterable[str | None]) -> str:
    """A row of CSV without its end of line: null is nothing, an empty text is `""` (as PostgreSQL
    and DuckDB have it).
    """
    return ",".join(map(csv_cell, texts))


def csv_cell(text: str | None) -> str:
    """A field of CSV."""
    if text is None:
        return ""
    if text and not any(mark in text for mark in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _csv_text(value: Any) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else _cell(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _print_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    from kbroker.cli.shown.fitted_table import fitted_table, has_room_for

    cells = [
        [name.upper() for name in columns],
        *[[plain(_cell(row.get(name)), keeps="") for name in columns] for row in rows],
    ]
    width = terminal_width()
    if width is not None and not has_room_for(cells, width):
        click.echo("\n\n".join(block(cells[0], row) for row in cells[1:]))
        return
    heads, *values = fitted_table(cells, width)
    is_bold = width is not None and not os.environ.get("NO_COLOR")
    for line in heads:
        click.echo(click.style(line, bold=True) if is_bold else line)
    for line in chain.from_iterable(values):
        click.echo(line)


def plain(text: str, *, keeps: str = "\n\t") -> str:
    """Control characters, but those it `keeps`, as escapes: who names a client or a group could
    steer the terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        repr(each)[1:-1] if (each < " " or "\x7f" <= each < "\xa0") and each not in keeps else each
        for each in text
    )


def terminal_width() -> int | None:
    """Columns of the terminal that standard output is; None if it is none."""
    from shutil import get_terminal_size  # a broker prints no table

    return get_terminal_size().columns if sys.stdout.isatty() else None


def block(heads: Sequence[str], cells: Sequence[str]) -> str:
    """A row with a line per value: a terminal too narrow for a table would break words in it."""
    width = max(map(len, heads))
    return "\n".join(
        f"{head.ljust(width)}  {cell}".rstrip() for head, cell in zip(heads, cells, strict=True)
    )
