"""Charts of the last minutes as SVG, made from samples. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from kbroker.console.web.html import Html, element

WIDTH_MS: Final = 900_000
_WIDTH, _HEIGHT = 900, 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A value at a time, in Unix ms; None if it is not known."""

    at_ms: int
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """How values are written, and which round numbers the height of a chart stands for."""

    text: Callable[[float], str]
    steps: tuple[int, ...] = (1, 2, 5, 10)


def rates(points: Iterable[Point]) -> tuple[Point, ...]:
    """Return how fast a number grew up to each of its samples, a second; one that has become less
    says nothing.
    """
    found = []
    for before, after in pairwise(points):
        value, seconds = None, (after.at_ms - before.at_ms) / 1000
        if before.value is not None and after.value is not None and seconds > 0:
            value = (after.value - before.value) / seconds
        found.append(Point(at_ms=after.at_ms, value=None if value is None or value < 0 else value))
    return tuple(found)


def svg_chart(title: str, points: Sequence[Point], now_ms: int, unit: Unit) -> Html:
    """Return a chart of the last 15 minutes, with its last and its highest value in words."""
    text_of = unit.text
    known = [each.value for each in points if each.value is not None]
    last = points[-1].value if points else None
    top = ceiling(max(known, default=0.0), unit.steps)
    said = f"{title}: {'not known' if last is None else text_of(last)} now"
    if known:
        said = f"{said}, {text_of(max(known))} at most"
    lines = [
        element("polyline", points=" ".join(line), vector_effect="non-scaling-stroke")
        for line in _lines(points, now_ms, top)
    ]
    grid = [
        element("line", x1=x, x2=x, y1=0, y2=_HEIGHT, vector_effect="non-scaling-stroke")
        for x in range(0, _WIDTH + 1, _WIDTH // 3)
    ]
    return element(
        "figure",
        element("figcaption", said),
        element("span", text_of(top), class_="top"),
        element(
            "svg", *grid, *lines, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=said,
            preserveAspectRatio="none",
        ),
        element(
            "p", element("span", "15 minutes ago"), element("span", "now"), class_="span"
        ),
        class_="chart",
    )  # fmt: skip


def ceiling(value: float, steps: Sequence[int]) -> float:
    """Return a round number that is not below it: one of the steps, or that times the last one, as
    often as needed.

    >>> ceiling(0, (1, 2, 5, 10)), ceiling(37, (1, 2, 5, 10)), ceiling(5000, (1, 4, 16))
    (1, 50, 16384)
    """
    power = 1
    while power * steps[-1] < value:
        power *= steps[-1]
    return next(power * step for step in steps if power * step >= value)


def _lines(points: Sequence[Point], now_ms: int, top: float) -> list[list[str]]:
    """Return the places of points that belong together, in pieces of a line."""
    lines: list[list[str]] = [[]]
    for each in points:
        age_ms = now_ms - each.at_ms
        if each.value is None:
            lines.append([])
        elif age_ms <= WIDTH_MS:
            x = _WIDTH * (1 - max(age_ms, 0) / WIDTH_MS)
            y = _HEIGHT * (1 - each.value / top)
            lines[-1].append(f"{x:.1f},{y:.1f}")
    return [line for line in lines if len(line) > 1]
