"""A live tail: the newest messages of a topic, and those that come, as long as the page is open.

The page asks for new rows every moment, from the offsets on that it knows, and keeps the last of
them: `static/tail.js`. A page that is closed, or paused, asks for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kbroker.client.record_places import Kind, Place
from kbroker.console.messages import messages
from kbroker.console.new_messages import new_messages
from kbroker.console.web.api.answers import api_answer
from kbroker.console.web.console import Console
from kbroker.console.web.html import element, joined
from kbroker.console.web.message_query import offsets_text, search_of
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import table_of
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.message_table import COLUMNS, message_rows
from kbroker.console.web.screens.search_fields import search_fields
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer

_FIRST_ROWS: Final = 20
_MOST_FOLLOWED: Final = 400  # of which 16 KiB hold the offsets


async def show_tail(console: Console, request: WebRequest) -> Answer:
    """Show the newest messages, and where to go on. Raises NotFoundError, ClientError."""
    name, query = request.places["topic"], request.query
    search = replace(
        search_of(name, query), start=Place(Kind.LAST, _FIRST_ROWS), starts={}, rows=_FIRST_ROWS
    )
    found = await messages(console.cluster, search)
    rows = message_rows(name, query, reversed(found.rows))
    fields = {each: values[-1] for each, values in query.values.items()}
    starts, note = followed(found.next_offsets)
    if note:
        fields["partitions"] = ",".join(map(str, starts))
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, "tail"),
            search_fields(request, has_places=False, submit="Follow"),
            element(
                "p",
                element("button", "Pause", type="button", id="pause", hidden=True),
                element("span", "The newest come first.", id="tail-state", class_="quiet"),
                element("noscript", "Load the page again to see newer ones."),
                class_="actions",
            ),
            element("ul", id="tail-gaps", class_="warn", hidden=True),
            table_of(
                "Messages",
                COLUMNS,
                element(
                    "tbody",
                    *rows,
                    id="tail",
                    data_tail=address("topics", name, "tail", "rows", **fields),
                    data_starts=offsets_text(starts),
                ),
            ),
        ),
        gaps=(*found.gaps, *note),
    )
    return page(console, request, content)


def followed(offsets: Mapping[int, int]) -> tuple[Mapping[int, int], tuple[str, ...]]:
    """Return the partitions that a page can follow, whose offsets its address has to hold, and a
    sentence if these are not all.
    """
    if len(offsets) <= _MOST_FOLLOWED:
        return offsets, ()
    first = sorted(offsets)[:_MOST_FOLLOWED]
    sentence = (
        f"a tail follows up to {_MOST_FOLLOWED} partitions, here {first[0]} to {first[-1]}: "
        "name those that you want"
    )
    return {partition: offsets[partition] for partition in first}, (sentence,)


async def show_rows(console: Console, request: WebRequest) -> Answer:
    """Return the rows of new messages, and what the page counts, as JSON. Raises NotFoundError,
    ClientError.
    """
    name, query = request.places["topic"], request.query
    found = await new_messages(console.cluster, search_of(name, query))
    return api_answer(
        {
            "html": str(joined(*message_rows(name, query, reversed(found.rows)))),
            "starts": offsets_text(found.next_offsets),
            "shown": len(found.rows),
            "unfit": found.looked_at - found.fitting,
            "skipped": found.skipped + found.fitting - len(found.rows),
            "gaps": found.gaps,
        }
    )


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/tail", respond=show_tail, shows_messages=True),
    WebRoute(pattern=f"{PATH}/tail/rows", respond=show_rows, shows_messages=True),
)
