"""Rows printed one by one as they come, in the forms of `--output`: for more rows than fit into
memory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import click

from kbroker.cli.shown.fitted_table import columns_of, table_line, table_width
from kbroker.cli.shown.output import block, csv_line, terminal_width
from kbroker.cli.shown.record_rows import json_text

_MEASURED_ROWS = 200  # the first rows decide how wide the columns of a table are


def stream_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], output: str) -> bool:
    """Print rows as table, json, jsonl or csv; whether there was any.

    No rows are an empty list in json, a head in csv, and nothing at all in a table.
    """
    iterator = iter(rows)
    first = next(iterator, None)
    printers = {"json": _json, "jsonl": _jsonl, "csv": _csv, "table": _table}
    printers[output](iterator if first is None else chain([first], iterator), columns)
    return first is not None


def _jsonl(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    for row in rows:
        click.echo(json_text({name: row.get(name) for name in columns}))


def _json(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    count = 0
    for count, row in enumerate(rows, start=1):
        lead = "[\n  " if count == 1 else ",\n  "
        click.echo(lead + json_text({name: row.get(name) for name in columns}), nl=False)
    click.echo("\n]" if count else "[]")


def _csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    sys.stdout.write(csv_line(columns) + "\n")
    for row in rows:
        sys.stdout.write(csv_line([_csv_text(row.get(name)) for name in columns]) + "\n")


def _table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    lines = ([_text(row.get(name)) or "" for name in columns] for row in rows)
    measured = list(islice(lines, _MEASURED_ROWS))
    if not measured:  # heads above nothing say nothing
        return
    heads = [name.upper() for name in columns]
    widths = [max(columns_of(line[i]) for line in [heads, *measured]) for i in range(len(columns))]
    width = terminal_width()
    if width is not None and table_width(widths) > width:
        for number, cells in enumerate(chain(measured, lines)):
            click.echo(("\n" if number else "") + block(heads, cells))
        return
    for cells in chain([heads], measured, lines):
        click.echo(table_line(cells, widths))


def _csv_text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else _text(value)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | dict):
        return json_text(value)
    return str(value)
