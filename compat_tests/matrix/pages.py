"""Results as Markdown and as one HTML page that needs nothing else: a row for each client in a
version, a column for each scenario, and a number at each cell that has a reason.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compat_tests.matrix.cells import Cell, Result, State

_COLUMNS = 118
_TEMPLATE = "page.html.jinja"
_SHORT = {
    State.OK: "ok",
    State.FAILED: "**failed**",
    State.NOT_IN_CLIENT: "-",
    State.NOT_SERVED: "not served",
    State.NOT_HERE: "not here",
    State.NOT_RUN: "not run",
}


class Reasons:
    """Reasons of cells in the order in which they are met, each with a number from 1 on."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, cell: Cell) -> int | None:
        """The number of a cell's reason; None where it has none."""
        if not cell.reason:
            return None
        return self._numbers.setdefault(sentence(cell), len(self._numbers) + 1)

    def all(self) -> list[str]:
        """The reasons, number 1 first."""
        return list(self._numbers)


def sentence(cell: Cell) -> str:
    """A reason with the state that it explains."""
    return cell.reason if cell.state == State.OK else f"{cell.state}: {cell.reason}"


@dataclass(frozen=True)
class Row:
    """The cells of a client in a version by scenario."""

    language: str
    title: str
    cells: dict[str, Cell]


def rows(result: Result) -> list[Row]:
    """One for each client and version, in the order of the run."""
    found: dict[tuple[str, str], Row] = {}
    for cell in result.cells:
        title = f"{cell.client} {cell.version}".strip()
        row = found.setdefault((cell.client, cell.version), Row(cell.language, title, {}))
        row.cells[cell.scenario] = cell
    return list(found.values())


def markdown(results: list[Result]) -> str:
    """The table: a cell has one word where all brokers agree, else one for each, in their order."""
    reasons = Reasons()
    by_broker = [{row.title: row for row in rows(result)} for result in results]
    titles = list(dict.fromkeys(title for each in by_broker for title in each))
    names = list(dict.fromkeys(name for result in results for name in result.scenarios))
    lines = [f"| Client | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for title in titles:
        cells = [
            _joined(
                [each[title].cells.get(name) if title in each else None for each in by_broker],
                reasons,
            )
            for name in names
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    told = "\n".join(
        textwrap.fill(f"{number}. {reason}", _COLUMNS, subsequent_indent="   ")
        for number, reason in enumerate(reasons.all(), 1)
    )
    return "\n".join(lines) + "\n\n" + told + "\n"


def _joined(cells: list[Cell | None], reasons: Reasons) -> str:
    texts = [_text(cell, reasons) for cell in cells]
    return texts[0] if len(set(texts)) == 1 else " / ".join(texts)


def _text(cell: Cell | None, reasons: Reasons) -> str:
    if cell is None:
        return "not asked"
    number = reasons.number(cell)
    return _SHORT[cell.state] + (f" <sup>{number}</sup>" if number else "")


def page(results: list[Result]) -> str:
    """The HTML page, a table for each broker."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    reasons = Reasons()
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    tables = [_table(result, reasons) for result in results]
    contracts = {name: told for result in results for name, told in result.scenarios.items()}
    return environment.get_template(_TEMPLATE).render(
        targets=", ".join(result.target for result in results),
        results=tables,
        reasons=reasons.all(),
        scenarios=contracts.items(),
    )


def _table(result: Result, reasons: Reasons) -> dict[str, object]:
    return {
        "target": result.target,
        "day": result.day,
        "summary": summary(result.cells),
        "scenarios": result.scenarios,
        "rows": [
            {
                "title": row.title,
                "cells": [_shown(row.cells[name], reasons) for name in result.scenarios],
            }
            for row in rows(result)
        ],
    }


def _shown(cell: Cell, reasons: Reasons) -> dict[str, object]:
    tones = {State.OK: "ok", State.FAILED: "failed"}
    text = f"ok, {cell.seconds} s" if cell.state == State.OK else cell.state.value
    tone = tones.get(cell.state, "other")
    return {"text": text, "tone": tone, "reason": cell.reason, "number": reasons.number(cell)}


def summary(cells: Iterable[Cell]) -> str:
    """How many cells ended in which way: `40 ok, 2 failed`."""
    all_cells = list(cells)
    counted = {state: sum(cell.state == state for cell in all_cells) for state in State}
    return ", ".join(f"{count} {state}" for state, count in counted.items() if count)
