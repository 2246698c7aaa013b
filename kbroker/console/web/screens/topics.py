"""The list of topics, found by name a page at a time."""

from __future__ import annotations

from typing import Final

from kbroker.console.pages import Wanted
from kbroker.console.topics import TopicRow, topics
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element, joined
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import (
    Column,
    checkbox,
    link,
    number,
    pager,
    search_form,
    size,
    table,
)
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.topic_changes import NEW_PATH
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import counted

PATH: Final = "/topics"
_COLUMNS = (
    Column("Topic"),
    Column("Partitions", is_number=True),
    Column("Replicas", is_number=True),
    Column("Records", is_number=True),
    Column("Size", is_number=True),
    Column("State"),
)


async def list_topics(console: Console, request: WebRequest) -> Answer:
    """List topics. Raises ClientError."""
    query = request.query
    shows_internal = query.flag("internal")
    wanted = Wanted(search=query.text("q"), page=query.page())
    found = await topics(console.cluster, wanted, with_internal=shows_internal)
    hidden = None
    if found.hidden:
        text = f"{counted(found.hidden, 'internal topic')} not shown."
        hidden = element("p", text, class_="quiet")
    content = PageContent(
        title="Topics",
        body=(
            link("Create a topic", NEW_PATH, is_action=True) if console.may_write else None,
            search_form(
                request, "Name", checkbox("internal", "internal ones", is_set=shows_internal)
            ),
            pager(request, found.page, "topic"),
            table("Topics", _COLUMNS, map(_row, found.page.rows), "No topic of this name."),
            hidden,
        ),
        gaps=found.gaps,
        refresh_s=10,
    )
    return page(console, request, content)


def _row(row: TopicRow) -> tuple[Child, ...]:
    state = []
    if row.leaderless:
        state.append(element("span", f"{row.leaderless:,} without a leader ", class_="bad"))
    if row.under_replicated:
        state.append(element("span", f"{row.under_replicated:,} under-replicated", class_="warn"))
    return (
        link(row.name, address("topics", row.name)),
        number(row.partitions),
        number(row.replication_factor),
        number(row.records),
        size(row.size_bytes),
        joined(*state),
    )


ROUTES: Final = (WebRoute(pattern=PATH, respond=list_topics),)
