"""Charts of one topic."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.chart_series import charts_of_topic
from kbroker.console.web.console import Console
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.chart_page import chart_page
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer


async def show_charts(console: Console, request: WebRequest) -> Answer:
    """Show the charts of a topic. Raises NotFoundError if there is none, ClientError."""
    name = request.places["topic"]
    found = await charts_of_topic(console, name)
    return chart_page(console, request, name, topic_frame(console, name, "charts"), found)


ROUTES: Final = (WebRoute(pattern=f"{PATH}/charts", respond=show_charts),)
