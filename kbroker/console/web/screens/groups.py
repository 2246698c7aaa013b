"""The list of groups, found by name a page at a time."""

from __future__ import annotations

from typing import Final

from kbroker.console.groups import GroupRow, groups
from kbroker.console.pages import Wanted
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import UNKNOWN, Column, pager, search_form, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.group_frame import group_link
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer

_COLUMNS = (
    Column("Group"),
    Column("State"),
    Column("Lag", is_number=True),
    Column("Type"),
)
_UNSOUND = ("Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


async def list_groups(console: Console, request: WebRequest) -> Answer:
    """List groups. Raises ClientError."""
    wanted = Wanted(search=request.query.text("q"), page=request.query.page())
    found = await groups(console.cluster, wanted)
    empty = "No group of this name." if wanted.search else "There is no group."
    content = PageContent(
        title="Groups",
        body=(
            search_form(request, "Name"),
            pager(request, found.page, "group"),
            table("Groups", _COLUMNS, map(_row, found.page.rows), empty),
        ),
        gaps=found.gaps,
        refresh_s=10,
    )
    return page(console, request, content)


def state_of(state: str | None) -> Child:
    """Return the state of a group, marked if it is at work on it."""
    if state is None:
        return UNKNOWN
    return element("span", state, class_="warn" if state in _UNSOUND else None)


def _row(row: GroupRow) -> tuple[Child, ...]:
    kind = row.type if row.type in (None, "", row.protocol_type) else f"{row.type} protocol"
    return (
        group_link(row.group),
        state_of(row.state),
        "" if row.lag is None else f"{row.lag:,}",
        ", ".join(filter(None, (row.protocol_type, kind))),
    )


ROUTES: Final = (WebRoute(pattern="/groups", respond=list_groups),)
