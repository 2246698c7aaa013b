"""Connections of clients and of other brokers to the broker that serves this console."""

from __future__ import annotations

from typing import Final

from kbroker.console.pages import Wanted, page_of
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import (
    UNKNOWN,
    Column,
    link,
    number,
    pager,
    search_form,
    size,
    table,
)
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.views import NO_VIEWS
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.tracing.open_connection import OpenConnection
from kbroker.wording import duration_text

_COLUMNS = (
    Column("Address"),
    Column("Client id"),
    Column("Software"),
    Column("User, listener"),
    Column("Versions of requests"),
    Column("Idle", is_number=True),
    Column("Requests", is_number=True),
    Column("Received", is_number=True),
    Column("Sent", is_number=True),
)
_JUST_NOW_MS = 5_000  # the broker looks that often


async def show_connections(console: Console, request: WebRequest) -> Answer:
    """List open connections. Raises ClientError."""
    if console.views is None:
        empty = element("p", f"Who is connected is {NO_VIEWS}.", class_="empty")
        return page(console, request, PageContent(title="Connections", body=empty))
    wanted = Wanted(search=request.query.text("q"), page=request.query.page())
    found = page_of(await console.views.connections(), wanted, lambda each: each.text)
    content = PageContent(
        title="Connections",
        body=(
            element("p", "Of this broker; the oldest come first.", class_="quiet"),
            search_form(request, "Address, client id, software or user"),
            pager(request, found, "connection"),
            table("Connections", _COLUMNS, map(_row, found.rows), "No such connection."),
        ),
        refresh_s=5,
    )
    return page(console, request, content)


def _row(row: OpenConnection) -> tuple[Child, ...]:
    asker = row.asker
    software = UNKNOWN if asker.software == "unknown" else asker.software
    follow = link(asker.address, address("requests", address=asker.address))
    versions = ", ".join(f"{name} {version}" for name, version in sorted(row.apis.items()))
    return (
        follow,
        UNKNOWN if asker.client_id is None else asker.client_id,
        software,
        f"{asker.principal}, {asker.listener}",
        versions or UNKNOWN,
        "now" if row.idle_ms < _JUST_NOW_MS else duration_text(row.idle_ms / 1000),
        number(row.requests),
        size(row.bytes_in),
        size(row.bytes_out),
    )


ROUTES: Final = (WebRoute(pattern="/connections", respond=show_connections),)
