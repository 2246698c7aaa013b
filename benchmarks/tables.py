"""Results as a table in Markdown: medians with the least and the most of all rounds, what kbroker's
are of the others', and the best and the worst row of each figure.
"""

from __future__ import annotations

import os
import platform
import re
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import generator
from benchmarks.rounds import Results, Values
from compat_tests.running import apache_kafka

_OURS = "kbroker"
_COMPARED = ("apache", "kfake")  # bare loops show what is left, and cannot be beaten
_GO_MODULES = Path(__file__).parent / "kfake" / "go.mod"
_NAME_WIDTH, _FIGURE_WIDTH = 58, 20


class Table:
    """Rows as they come, with columns for these brokers."""

    def __init__(self, brokers: Sequence[str], rounds: int) -> None:
        self._brokers = brokers
        self._others = [name for name in brokers if name in _COMPARED]
        width = 8 if rounds == 1 else 22
        ratios = [f"of {name}" for name in self._others]
        self._widths = [_NAME_WIDTH, _FIGURE_WIDTH, *(width for _ in brokers), *map(len, ratios)]
        self._print(["load", "figure", *brokers, *ratios])
        rules = [":" + "-" * (each - 1) for each in self._widths[:2]]
        self._print([*rules, *("-" * (each - 1) + ":" for each in self._widths[2:])])

    def add(self, results: Results) -> None:
        """Print a row for each figure of these loads."""
        for (load, figure), values in results.items():
            cells = [shown(values[name]) if name in values else "" for name in self._brokers]
            ratios = [ratio(values, name) for name in self._others]
            self._print([load, figure, *cells, *(f"{each:.2f}" if each else "" for each in ratios)])

    def _print(self, cells: Sequence[str]) -> None:
        padded = [
            cell.ljust(width) if place < 2 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(cells, self._widths, strict=True))
        ]
        print(f"| {' | '.join(padded)} |", flush=True)


def shown(values: Sequence[float]) -> str:
    """The median, and the least and the most if there are several rounds."""
    median = number(statistics.median(values))
    return f"{median} ({number(min(values))}-{number(max(values))})" if len(values) > 1 else median


def number(value: float) -> str:
    """Three digits that count, or all before the point."""
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(values: Values, other: str) -> float | None:
    """Divide kbroker's median by another one's; None if there is nothing to compare."""
    if not values.get(_OURS) or not values.get(other):
        return None
    theirs = statistics.median(values[other])
    return statistics.median(values[_OURS]) / theirs if theirs else None


def best_and_worst(results: Results) -> list[str]:
    """Say for each figure that several loads have which row is the best beside another broker, and
    which the worst.
    """
    found: dict[tuple[str, str], list[tuple[float, str]]] = defaultdict(list)
    for (load, figure), values in results.items():
        for other in _COMPARED:
            if of_other := ratio(values, other):
                found[figure, other].append((of_other, load))
    lines = []
    for (figure, other), rows in found.items():
        if len(rows) > 1:
            first, last = sorted(rows, reverse=figure.endswith("_per_s"))[:: len(rows) - 1]
            lines.append(
                f"{figure} beside {other}: best {first[0]:.2f} ({first[1]}), "
                f"worst {last[0]:.2f} ({last[1]})"
            )
    return lines


def medians(results: Results) -> list[dict[str, Any]]:
    """The results for a file."""
    return [
        {
            "load": load,
            "figure": figure,
            "medians": {name: round(statistics.median(v), 3) for name, v in values.items()},
            "spread": {name: [round(min(v), 3), round(max(v), 3)] for name, v in values.items()},
        }
        for (load, figure), values in results.items()
    ]


def conditions(brokers: Sequence[str], warm_up: str, rounds: int) -> str:
    """Say what was measured, and where."""
    said = [f"{os.cpu_count()} cores, {_processor()}", f"Python {platform.python_version()}"]
    if "apache" in brokers:
        said.append(f"Apache Kafka {apache_kafka.NEWEST} on Java {_java()}")
    if "kfake" in brokers:
        (version,) = re.findall(r"kfake (\S+)", _GO_MODULES.read_text())
        said.append(f"kfake {version}")
    said += [f"generator in {generator.language()}", warm_up]
    return ", ".join([*said, f"medians of {rounds} rounds with the least and the most"])


def _processor() -> str:
    models = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    return models[0] if models else platform.machine()


def _java() -> str:
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return said.partition('"')[2].partition('"')[0]
