"""How commands print: data on standard output as table, json, jsonl or csv; everything else on
standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import click

from kbroker.wording import counted, duration_text, named

__all__ = [
    "FORMATS",
    "Row",
    "counted",
    "csv_cell",
    "csv_line",
    "duration_text",
    "filled",
    "named",
    "options",
    "output_option",
    "plain",
    "print_rows",
    "print_text",
    "say",
]

_MEASURED_ROWS = 200  # of a stream: they set the widths of a table's columns
FORMATS = ("table", "json", "jsonl", "csv")
Row = Mapping[str, Any]
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def options(*stack: Callable[[Any], Any]) -> Callable[[CommandT], CommandT]:
    """Return a decorator that gives a command these options, in this order in its help."""

    def decorate(command: CommandT) -> CommandT:
        for option in reversed(stack):
            command = option(command)
        return command

    return decorate


def output_option(command: CommandT) -> CommandT:
    """Give a command that prints rows its `--output` option."""
    return click.option(
        "--output",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        help="How rows are printed.",
    )(command)


def print_rows(rows: Iterable[Row], columns: Sequence[str], output: str) -> bool:
    """Print rows, and return whether there was any; `columns` are the keys to show, in this order,
    and the heads of table and csv.

    No rows are an empty list in json, a head in csv, and nothing at all in a table. Rows that are
    no sequence are printed as they come, as more of them than fit into memory may.
    """
    iterator = iter(rows)
    first = next(iterator, None)
    found = iterator if first is None else chain([first], iterator)
    if output in ("json", "jsonl"):
        _print_json(found, columns, output, is_stream=not isinstance(rows, Sequence))
    elif output == "csv":
        shown = plain if sys.stdout.isatty() else str
        for texts in chain([columns], ([_csv_text(row.get(n)) for n in columns] for row in found)):
            sys.stdout.write(shown(csv_line(texts)) + "\n")
        sys.stdout.flush()
    elif first is not None:  # heads above nothing say nothing
        _print_table(found, columns, None if isinstance(rows, Sequence) else _MEASURED_ROWS)
    return first is not None


def _print_json(
    rows: Iterable[Row], columns: Sequence[str], output: str, *, is_stream: bool
) -> None:
    from kbroker.decoding.record_rows import json_text  # 10 ms for help texts

    picked = ({name: row.get(name) for name in columns} for row in rows)
    if output == "json" and not is_stream:
        click.echo(json_text(list(picked), indent=2))
        return
    count = 0
    for count, row in enumerate(picked, start=1):
        lead = "" if output == "jsonl" else "[\n  " if count == 1 else ",\n  "
        click.echo(lead + json_text(row), nl=output == "jsonl")
    if output == "json":
        click.echo("\n]" if count else "[]")


def print_text(text: str) -> None:
    """Print text with names in it, with control characters as escapes on a terminal."""
    # Elsewhere nothing is changed; without `color`, click would take escape sequences out.
    click.echo(plain(text) if sys.stdout.isatty() else text, color=True)


def say(message: str) -> None:
    """Print a line for the person at the terminal, with control characters as escapes."""
    click.echo(plain(message), err=True)


def filled(rows: Sequence[Row], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns in which any row has a value; all if there is no row."""
    return tuple(
        name for name in columns if not rows or any(row.get(name) is not None for row in rows)
    )


def csv_line(texts: Iterable[str | None]) -> str:
    """Return a row of CSV without its end of line; null is nothing, an empty text is `""`, as in
    PostgreSQL and DuckDB.
    """
    return ",".join(map(csv_cell, texts))


def csv_cell(text: str | None) -> str:
    """Return a field of CSV, in quotes if it needs them."""
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
    if isinstance(value, dict):
        from kbroker.decoding.record_rows import json_text

        return json_text(value)
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _print_table(rows: Iterable[Row], columns: Sequence[str], measured: int | None) -> None:
    """Print a table whose columns are as wide as the first rows need; `measured` None: all rows."""
    from kbroker.cli.shown.fitted_table import fitted_table, has_room_for

    heads = [name.upper() for name in columns]
    cells = ([plain(_cell(row.get(name)), keeps="") for name in columns] for row in rows)
    first = list(islice(cells, measured))
    width = _terminal_width()
    if width is not None and not has_room_for([heads, *first], width):
        for number, row in enumerate(chain(first, cells)):
            click.echo(("\n" if number else "") + _block(heads, row))
        return
    lines_of = fitted_table([heads, *first], width)
    is_bold = width is not None and not os.environ.get("NO_COLOR")
    for line in lines_of(heads):
        click.echo(click.style(line, bold=True) if is_bold else line)
    for line in chain.from_iterable(map(lines_of, chain(first, cells))):
        click.echo(line)


def plain(text: str, *, keeps: str = "\n\t") -> str:
    """Replace control characters, but those it `keeps`, by escapes, because the name of a client or
    a group could steer the terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        repr(each)[1:-1] if (each < " " or "\x7f" <= each < "\xa0") and each not in keeps else each
        for each in text
    )


def _terminal_width() -> int | None:
    """Return the columns of the terminal; None if standard output is not a terminal."""
    from shutil import get_terminal_size  # a broker prints no table

    return get_terminal_size().columns if sys.stdout.isatty() else None


def _block(heads: Sequence[str], cells: Sequence[str]) -> str:
    """Lay out a row with a line per value, for a terminal too narrow for a table."""
    width = max(map(len, heads))
    return "\n".join(
        f"{head.ljust(width)}  {cell}".rstrip() for head, cell in zip(heads, cells, strict=True)
    )
