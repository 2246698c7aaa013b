"""Messages of a topic: from a place on, up to an end, those that fit a filter; and the same as a
file.
"""

from __future__ import annotations

import json
from typing import Final

from kbroker.console.messages import Ended, FoundMessages, MessageSearch, messages
from kbroker.console.web.api.answers import plain
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.message_query import has_filter, offsets_text, search_of
from kbroker.console.web.page import SECURITY, PageContent, page
from kbroker.console.web.parts import link, size, table_of
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.elsewhere import consume_command, elsewhere
from kbroker.console.web.screens.message_table import COLUMNS, message_rows
from kbroker.console.web.screens.search_fields import search_fields
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import counted

_MOST_NAMED: Final = 200  # partitions whose offsets an address names
_ENDINGS: Final = {
    Ended.ROWS: "there may be more",
    Ended.BYTES: "then it had read as much as a search may",
    Ended.SECONDS: "then its time was over",
    Ended.TROUBLE: "then something went wrong",
}


async def show_messages(console: Console, request: WebRequest) -> Answer:
    """Show messages. Raises NotFoundError, ClientError, RefusedError for a field."""
    name, query = request.places["topic"], request.query
    search = search_of(name, query)
    found = await messages(console.cluster, search)
    rows = message_rows(name, query, found.rows)
    fields = {each: values[-1] for each, values in query.values.items() if values[-1]}
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, "messages"),
            search_fields(request, has_places=True, submit="Show"),
            _outcome(found),
            _ways_on(request, search, found),
            table_of("Messages", COLUMNS, element("tbody", *rows))
            if rows
            else element("p", "No message.", class_="empty"),
            elsewhere(
                request,
                address("topics", name, "messages"),
                fields,
                consume_command(console, name, query),
            ),
        ),
        gaps=found.gaps,
    )
    return page(console, request, content)


def _outcome(found: FoundMessages) -> Html:
    """Return what was looked at, what is left out of the rows, and why the search ended."""
    parts = [f"{counted(len(found.rows), 'message')} shown"]
    if found.fitting > len(found.rows):
        parts.append(f"{found.fitting - len(found.rows):,} older ones of those that fit not shown")
    others = found.looked_at - found.fitting
    if others:
        parts.append(f"{counted(others, 'other')} {'does' if others == 1 else 'do'} not fit")
    parts.append(f"{size(found.bytes)} read")
    if found.ended in _ENDINGS:
        parts.append(_ENDINGS[found.ended])
    return element("p", "; ".join(parts), ".", role="status", class_="quiet")


def _ways_on(request: WebRequest, search: MessageSearch, found: FoundMessages) -> Html:
    links: list[Child] = []
    earlier = _earlier(request, search, found)
    if earlier:
        links.append(link("Earlier", earlier, is_action=True))
    if found.ended is not Ended.AT_END and 0 < len(found.next_offsets) <= _MOST_NAMED:
        later = request.with_query(starts=offsets_text(found.next_offsets))
        links.append(link("Go on", later, is_action=True))
    if search.starts:
        links.append(link("Newest", request.with_query(starts=None), is_action=True))
    as_file = address("topics", search.topic, "messages.jsonl")
    if found.rows:
        _, _, query = request.with_query().partition("?")
        href = f"{as_file}?{query}" if query else as_file
        links.append(element("a", "Download", href=href, class_="action", download=True))
        links.append(element("button", "Copy", type="button", data_copy=href, hidden=True))
    return element("p", *links, class_="actions")


def _earlier(request: WebRequest, search: MessageSearch, found: FoundMessages) -> str | None:
    """Return the address of the messages before these; None if there are several partitions, or a
    filter, in which they have no order.
    """
    partitions = {row.partition for row in found.rows}
    if len(partitions) != 1 or len(found.next_offsets) != 1 or has_filter(request.query):
        return None
    first = min(row.offset for row in found.rows)
    if first == 0:
        return None
    return request.with_query(**{"from": max(first - search.rows, 0), "to": first, "starts": None})


async def download(console: Console, request: WebRequest) -> Answer:
    """Return the messages of a list as a file, a line of JSON each. Raises as `show_messages`."""
    name = request.places["topic"]
    found = await messages(console.cluster, search_of(name, request.query))
    lines = (json.dumps({"topic": name, **plain(row)}) + "\n" for row in found.rows)
    return Answer(
        body="".join(lines).encode(),
        content_type="application/jsonl",
        headers=(as_file(f"{name}.jsonl"), *SECURITY),
    )


def as_file(name: str) -> tuple[str, str]:
    """Return the header that has a browser keep an answer under a name, which has the letters of a
    topic's only.
    """
    return ("content-disposition", f'attachment; filename="{name}"')


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/messages", respond=show_messages, shows_messages=True),
    WebRoute(pattern=f"{PATH}/messages.jsonl", respond=download, shows_messages=True),
)
