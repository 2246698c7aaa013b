"""Requests as the broker that serves this console answers them: who asks for what, how long it
took, and with which error codes. A broker makes none of this unless such a page is looked at.
"""

from __future__ import annotations

from typing import Final

from kbroker.console.web.console import Console
from kbroker.console.web.follows import Follow
from kbroker.console.web.html import Child, Html, element, joined
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import Column, link, moment, size, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.views import NO_VIEWS
from kbroker.console.web.web_request import RefusedError, WebRequest
from kbroker.http.answers import Answer
from kbroker.tracing.trace_entry import TraceEntry
from kbroker.tracing.trace_filter import NAMES
from kbroker.wording import counted

_REFRESH_S = 2
_FIELDS: Final = {
    "client_id": "Client id",
    "address": "Address",
    "api": "Request",
    "topic": "Topic",
    "code": "Error code",
    "slower_than_ms": "Slower than ms",
}
_COLUMNS = (
    Column("Time"),
    Column("Client"),
    Column("Request"),
    Column("Asked for"),
    Column("Took", is_number=True),
    Column("In", is_number=True),
    Column("Out", is_number=True),
    Column("Errors"),
)


async def show_requests(console: Console, request: WebRequest) -> Answer:
    """Show the last requests that fit a filter. Raises RefusedError, ClientError."""
    if console.views is None:
        empty = element("p", f"Who asks for what is {NO_VIEWS}.", class_="empty")
        return page(console, request, PageContent(title="Requests", body=empty))
    is_paused = request.query.flag("paused")
    query = request.query
    patterns = {
        name: list(filter(None, map(str.strip, query.values[name])))
        for name in NAMES
        if query.text(name)
    }
    try:
        follow = await console.follows.look(console.views, patterns)
    except ValueError as error:
        raise RefusedError(400, str(error)) from error
    content = PageContent(
        title="Requests",
        body=(
            _filter(request),
            _state(request, follow, is_paused=is_paused),
            table(
                "Requests",
                _COLUMNS,
                map(_row, reversed(follow.entries)),
                "None yet: they appear here as they are answered.",
            ),
        ),
        refresh_s=None if is_paused else _REFRESH_S,
    )
    return page(console, request, content)


def _filter(request: WebRequest) -> Html:
    fields = [
        element(
            "label",
            element("span", title),
            element(
                "input",
                id=f"f-{name}",
                name=name,
                value=request.query.text(name),
                size=12,
                autocomplete="off",
                spellcheck="false",
                inputmode="decimal" if name == "slower_than_ms" else None,
                data_find=name == "client_id",
            ),
        )
        for name, title in _FIELDS.items()
    ]
    hint = "Patterns with * and ?; any error code is *."
    return element(
        "form",
        *fields,
        element("button", "Follow"),
        element("span", hint, class_="hint"),
        method="get",
        action=request.path,
        class_="bar",
        role="search",
    )


def _state(request: WebRequest, follow: Follow, *, is_paused: bool) -> Html:
    """Return how many requests there were, and the link that pauses."""
    said = f"{counted(follow.seen, 'request')} since this is looked at"
    if len(follow.entries) < follow.seen:
        said = f"{said}, the last {len(follow.entries):,} shown"
    if follow.missed:
        said = f"{said}; {follow.missed:,} came too fast to be kept"
    switch = link("Go on", request.with_query(paused=None), is_action=True)
    if not is_paused:
        switch = link("Pause", request.with_query(paused=1), is_action=True)
    return joined(element("p", switch, element("span", said, class_="quiet"), class_="bar"))


def _row(entry: TraceEntry) -> tuple[Child, ...]:
    asker = entry.asker
    client = " ".join(filter(None, (asker.client_id, asker.address)))
    codes = [f"{each.code} {each.about}".strip() for each in entry.codes]
    if entry.code_count > len(codes):
        codes.append(f"and {entry.code_count - len(codes):,} more")
    if entry.is_closed:
        codes.append("connection closed")
    return (
        moment(entry.at_ms),
        f"{client} (by way of another broker)" if asker.is_forwarded else client,
        element("span", f"{entry.api} {entry.version}", class_="line"),
        entry.asked.sentence(),
        f"{entry.took_ms:,.2f} ms",
        size(entry.request_bytes),
        "none" if entry.answer_bytes is None else size(entry.answer_bytes),
        element("span", ", ".join(codes), class_="bad"),
    )


ROUTES: Final = (WebRoute(pattern="/requests", respond=show_requests),)
