from __future__ import annotations

import re

from kbroker.console.web.chart_series import unit_named
from kbroker.console.web.svg_chart import Point, rates, svg_chart


def points(*values: float | None) -> list[Point]:
    return [Point(at_ms=n * 10_000, value=value) for n, value in enumerate(values)]


def test_a_rate_is_unknown_where_a_sample_is_missing_or_counters_begin_again() -> None:
    found = rates(points(0, 50, None, 70, 90, 5, 15))
    assert [each.value for each in found] == [5.0, None, None, 2.0, None, 1.0]
    assert [each.at_ms for each in found] == [10_000 * n for n in range(1, 7)]
    assert rates(points(1)) == ()


def test_a_chart_has_pieces_of_lines_with_gaps_and_says_its_values() -> None:
    drawn = svg_chart("Lag <now>", points(0, 10, None, 20, 20), 900_000, unit_named(""))
    lines = re.findall(r'<polyline points="([^"]*)"', drawn)
    assert lines == ["0.0,120.0 10.0,60.0", "30.0,0.0 40.0,0.0"]
    assert "Lag &lt;now&gt;: 20 now, 20 at most" in drawn
    old = svg_chart("x", points(1, 2), 10_000_000, unit_named("/s"))
    assert "<polyline" not in old
    assert "x: not known now" in svg_chart("x", [], 0, unit_named("/s"))
