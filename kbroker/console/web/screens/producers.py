"""Producers that the partitions of a topic remember, those with open transactions first."""

from __future__ import annotations

from typing import Final

from kbroker.console.transactions import ProducerRow, producers
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import Column, moment, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer

_COLUMNS = (
    Column("Partition", is_number=True),
    Column("Producer id", is_number=True),
    Column("Epoch", is_number=True),
    Column("Last sequence", is_number=True),
    Column("Last written"),
    Column("Open since offset", is_number=True),
)


async def show_producers(console: Console, request: WebRequest) -> Answer:
    """Show the producers of a topic. Raises NotFoundError if there is none, ClientError."""
    name = request.places["topic"]
    found = await producers(console.cluster, name)
    said = "Idempotent and transactional ones; others leave no trace."
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, "producers"),
            element("p", said, class_="quiet"),
            table("Producers", _COLUMNS, map(_row, found.producers), "None is remembered."),
        ),
        gaps=found.gaps,
        refresh_s=10,
    )
    return page(console, request, content)


def _row(row: ProducerRow) -> tuple[Child, ...]:
    is_open = row.open_since_offset is not None
    since = element("span", str(row.open_since_offset), class_="warn") if is_open else ""
    return (
        str(row.place.partition),
        str(row.producer_id),
        str(row.producer_epoch),
        "none" if row.last_sequence is None else str(row.last_sequence),
        moment(row.last_timestamp_ms),
        since,
    )


ROUTES: Final = (WebRoute(pattern=f"{PATH}/producers", respond=show_producers),)
