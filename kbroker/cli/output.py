"""How commands print: data on standard output as table, json, jsonl or csv; everything else on
standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

FORMATS = ("table", "json", "jsonl", "csv")
Row = Mapping[str, Any]
_ENDLESS = 10_000  # columns of a terminal
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
    """Print rows; `columns` are the keys to show, in this order, and the heads of table and csv."""
    if output == "json":
        click.echo(json.dumps([_picked(row, columns) for row in rows], indent=2))
    elif output == "jsonl":
        for row in rows:
            click.echo(json.dumps(_picked(row, columns)))
    elif output == "csv":
        import csv  # a broker prints none

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[_cell(row.get(name)) for name in columns] for row in rows])
    elif sys.stdout.isatty():
        _rich_table(rows, columns)
    else:
        _plain_table(rows, columns)


def say(message: str) -> None:
    """A line for the person at the terminal."""
    click.echo(message, err=True)


def filled(rows: Sequence[Row], columns: Sequence[str]) -> tuple[str, ...]:
    """The columns in which any row says something; all where there is no row."""
    return tuple(
        name for name in columns if not rows or any(row.get(name) is not None for row in rows)
    )


def counted(number: int, noun: str) -> str:
    """`1 batch`, `2 batches`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number} {noun}{'' if number == 1 else ending}"


def _picked(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    return {name: row.get(name) for name in columns}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def _plain_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    cells = [
        [name.upper() for name in columns],
        *[[_cell(row.get(name)) for name in columns] for row in rows],
    ]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    for line in cells:
        click.echo(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )


def _rich_table(rows: Sequence[Row], columns: Sequence[str]) -> None:
    from rich.console import Console  # rich costs 60 ms: only a terminal pays for it
    from rich.table import Table

    def table(between_words: str) -> Table:
        made = Table(box=None, header_style="bold", pad_edge=False)
        for name in columns:
            made.add_column(name.upper().replace("_", between_words), overflow="fold")
        for row in rows:
            made.add_row(*[_cell(row.get(name)) for name in columns])
        return made

    console = Console()
    wide = table("_")
    fits = console.measure(wide, options=console.options.update(max_width=_ENDLESS))
    console.print(wide if fits.maximum <= console.width else table(" "))
