"""The picture of the packages in the architecture: rows that import lower ones only, and the rooms
of a package as rows inside it, drawn from the import contracts that `make check` holds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from tests.docs.pages import DOCS
from tests.source_trees import ROOT

PICTURE = DOCS / "packages.svg"
_WIDTH = 960  # of the whole, in pixels; heights follow from what is in it
_LINE = 18
_GAP = 6
_LETTER = 6.4  # the width of a letter of 11 pixels, on average
_COMMON = "what all may import"
_STYLE = (
    "text{font:11px sans-serif;fill:#1f2328}.package{font-weight:bold}"
    ".row{fill:#ddf4ff;stroke:#54aeff}.room{fill:#fff;stroke:#afb8c1}"
)


class Box(NamedTuple):
    """A package, or a room in one, with the rows of rooms inside, the highest first."""

    name: str
    rows: list[list[Box]]

    @property
    def height(self) -> int:
        return _LINE + sum(_height(row) + _GAP for row in self.rows) + (_GAP if self.rows else 0)


def rows_of_packages() -> list[list[Box]]:
    """Return the rows of the first contract; each package with the rows of its own contract."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = [each["layers"] for each in contracts if each["type"] == "layers"]
    by_package = {rows[0].split()[0].rpartition(".")[0]: list(map(_names, rows)) for rows in layers}
    *rows, common = by_package.pop("kbroker")
    drawn = [[_box(name, by_package) for name in row] for row in rows]
    assert not by_package, f"contracts inside of no package: {sorted(by_package)}"
    return [*drawn, [Box(f"{_COMMON}: {', '.join(map(_short, common))}", [])]]


def _box(name: str, by_package: dict[str, list[list[str]]]) -> Box:
    """Return a package or a room, with the rooms inside; takes their contract out of the dict."""
    rows = by_package.pop(name, [])
    return Box(_short(name), [[_box(room, by_package) for room in row] for row in rows])


def picture() -> str:
    """Return the picture as SVG."""
    rows = rows_of_packages()
    height = sum(_height(row) + _GAP for row in rows) + _GAP
    shapes = "\n".join(_row_shapes(rows, _GAP, _GAP, _WIDTH - 2 * _GAP, "row"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" role="img">\n'
        "<title>The packages of kbroker: each imports lower rows only</title>\n"
        f"<style>{_STYLE}</style>\n{shapes}\n</svg>\n"
    )


def _names(row: str) -> list[str]:
    return re.split(r" [|:] ", row)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _height(row: list[Box]) -> int:
    return max(box.height for box in row)


def _row_shapes(
    rows: list[list[Box]], left: float, top: float, width: float, kind: str
) -> Iterator[str]:
    """Yield the boxes of rows, one below the other, and all that is in them."""
    for row in rows:
        shares = [_share(box) for box in row]
        free = width - _GAP * (len(row) - 1)
        x = left
        for box, share in zip(row, shares, strict=True):
            its_width = free * share / sum(shares)
            yield from _box_shapes(box, (x, top, its_width, _height(row)), kind)
            x += its_width + _GAP
        top += _height(row) + _GAP


def _share(box: Box) -> float:
    """Return the width that a box asks for: of its name, or of its widest row."""
    inner = [sum(map(_share, row)) + _GAP * (len(row) + 1) for row in box.rows]
    return max(len(box.name) * _LETTER + 16, *inner, 0)


def _box_shapes(box: Box, place: tuple[float, float, float, float], kind: str) -> Iterator[str]:
    x, y, width, height = place
    weight = ' class="package"' if kind == "row" else ""
    yield (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="4"/><text{weight} x="{x + 6:.1f}" y="{y + 13:.1f}">{escape(box.name)}</text>'
    )
    yield from _row_shapes(box.rows, x + _GAP, y + _LINE + _GAP / 2, width - 2 * _GAP, "room")
