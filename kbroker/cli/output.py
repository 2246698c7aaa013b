"""How commands print: data on standard output as table, json, jsonl or csv; everything else on
standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
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
    if output == "json":
        click.echo(_json([_picked(row, columns) for row in rows], indent=2))
    elif output == "jsonl":
        for row in rows:
            click.echo(_json(_picked(row, columns)))
    elif output == "csv":
        import csv  # a broker prints none

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([[_csv_cell(row.get(name)) for name in columns] for row in rows])
    elif rows:  # heads above nothing say nothing
        _print_table(rows, columns)


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


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _csv_cell(value: Any) -> str:
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
    from shutil import get_terminal_size  # a broker prints no table

    from kbroker.cli.fitted_table import fitted_table, has_room_for

    cells = [
        [name.upper() for name in columns],
        *[[_plain(_cell(row.get(name))) for name in columns] for row in rows],
    ]
    is_terminal = sys.stdout.isatty()
    width = get_terminal_size().columns if is_terminal else None
    if width is not None and not has_room_for(cells[0], width):
        _print_blocks(cells)
        return
    heads, *values = fitted_table(cells, width)
    for line in heads:
        click.echo(click.style(line, bold=True) if is_terminal else line)
    for line in chain.from_iterable(values):
        click.echo(line)


def _plain(cell: str) -> str:
    """Control characters as escapes: who names a client or a group could steer the terminal."""
    if cell.isprintable():
        return cell
    return "".join(
        repr(each)[1:-1] if each < " " or "\x7f" <= each < "\xa0" else each for each in cell
    )


def _print_blocks(cells: Sequence[Sequence[str]]) -> None:
    """A line per value: a terminal too narrow for the heads would break words everywhere."""
    heads, *rows = cells
    width = max(map(len, heads))
    blocks = (
        "\n".join(
            f"{head.ljust(width)}  {cell}".rstrip() for head, cell in zip(heads, row, strict=True)
        )
        for row in rows
    )
    click.echo("\n\n".join(blocks))
