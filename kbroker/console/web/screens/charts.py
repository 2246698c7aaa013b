"""Charts of the broker that serves this console, or of what is written to another cluster."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.chart_series import charts_of_cluster
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.chart_page import chart_page
from kbroker.console.web.views import NO_VIEWS
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer


async def show_charts(console: Console, request: WebRequest) -> Answer:
    """Show the charts of the cluster. Raises ClientError."""
    found = await charts_of_cluster(console)
    gap: Child = None
    if console.views is None:
        text = f"Made from end offsets. Bytes, requests and connections are {NO_VIEWS}."
        gap = element("p", text, class_="quiet")
    return chart_page(console, request, "Charts", gap, found)


ROUTES: Final = (WebRoute(pattern="/charts", respond=show_charts),)
