"""Rows printed one by one as they come, in the forms of `--output`: for more rows than fit into
memory.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

_MEASURED_ROWS = 200  # the first rows decide how wide the columns of a table are


def stream_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], output: str) -> None:
    """Print rows as table, json, jsonl or csv."""
    if output == "jsonl":
        for row in rows:
            click.echo(json.dumps({name: row.get(name) for name in columns}))
        return
    printers = {"json": _json, "csv": _csv, "table": _table}
    printers[output](rows, columns)


def _json(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    count = 0
    for count, row in enumerate(rows, start=1):
        lead = "[\n  " if count == 1 else ",\n  "
        click.echo(lead + json.dumps({name: row.get(name) for name in columns}), nl=False)
    click.echo("\n]" if count else "[]")


def _csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in columns])


def _table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    iterator = iter(rows)
    measured = [
        [_cell(row.get(name)) for name in columns]
        for row, _ in zip(iterator, range(_MEASURED_ROWS), strict=False)
    ]
    heads = [name.upper() for name in columns]
    widths = [max(len(line[i]) for line in [heads, *measured]) for i in range(len(columns))]

    def line(cells: Sequence[str]) -> None:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        click.echo("  ".join(padded).rstrip())

    line(heads)
    for cells in measured:
        line(cells)
    for row in iterator:
        line([_cell(row.get(name)) for name in columns])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple | dict):
        return json.dumps(value)
    return str(value)
