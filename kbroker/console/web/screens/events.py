"""The last events of the broker that serves this console."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.events_table import events_table
from kbroker.console.web.views import NO_VIEWS
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer


async def show_events(console: Console, request: WebRequest) -> Answer:
    """Show the last events of all groups and partitions. Raises ClientError."""
    body: Child = element("p", f"What happened is {NO_VIEWS}.", class_="empty")
    if console.views is not None:
        body = events_table(await console.views.events(None))
    content = PageContent(title="Events", body=body, refresh_s=None if console.views is None else 5)
    return page(console, request, content)


ROUTES: Final = (WebRoute(pattern="/events", respond=show_events),)
