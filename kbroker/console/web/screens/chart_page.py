"""A page of charts of the last 15 minutes."""

from __future__ import annotations

from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.web.chart_series import Charts, unit_named
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.svg_chart import svg_chart
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer

_REFRESH_S = 10
_BEGINS = "A point every 10 s from the first look on, until nobody has looked for 15 minutes."


def chart_page(
    console: Console, request: WebRequest, title: str, above: Child, found: Charts
) -> Answer:
    """Return a page with charts below something else."""
    now_ms = unix_now_ms()
    drawn = [
        svg_chart(each.title, each.points, now_ms, unit_named(each.unit)) for each in found.charts
    ]
    content = PageContent(
        title=title,
        body=(
            above,
            element("p", _BEGINS, class_="quiet"),
            element("div", *drawn, class_="charts"),
        ),
        gaps=() if found.trouble is None else (f"The newest point is missing: {found.trouble}",),
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)
