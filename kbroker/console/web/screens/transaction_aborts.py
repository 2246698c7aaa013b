"""Transactions that somebody has to end: of a producer that is gone, by its transactional id, and
those that hang in a partition because no coordinator knows them.
"""

from __future__ import annotations

from typing import Final

from kbroker.client.hanging_transactions import OpenTransaction
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.hanging_transactions import (
    HangingTransactions,
    abort_hanging,
    hanging_transactions,
)
from kbroker.console.transactions import abort, transaction
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import Column, field, form, hidden, moment, number, section, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import CHANGE_ERRORS, sentence_of
from kbroker.console.web.screens.transactions import HANGING_PATH, PATH, open_places
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.model import TopicPartition
from kbroker.wording import counted

_LONGEST_MINUTES = 15  # the default of transaction.max.timeout.ms
_MINUTE_MS = 60_000
_SHOWN_ROWS = 500
_COLUMNS = (
    Column("Partition"),
    Column("Begins at", is_number=True),
    Column("Producer id", is_number=True),
    Column("Epoch", is_number=True),
    Column("Last written"),
    Column("Change"),
)


async def show_abort(console: Console, request: WebRequest) -> Answer:
    """Ask whether what an id has open shall be aborted. Raises NotFoundError, ClientError."""
    return await _abort_page(console, request, ())


async def do_abort(console: Console, request: WebRequest) -> Answer:
    """Abort what an id has open. Raises NotFoundError, ClientError."""
    name = request.places["id"]
    try:
        sentence = await abort(console.cluster, name)
    except CHANGE_ERRORS as error:
        return await _abort_page(console, request, (sentence_of(error),))
    return to_page(console, "transactions", name, said=(sentence,))


async def _abort_page(console: Console, request: WebRequest, problems: tuple[str, ...]) -> Answer:
    name = request.places["id"]
    found = await transaction(console.cluster, name)
    warning = (
        f"The coordinator aborts the transaction of producer {found.producer_id} in "
        f"{counted(len(found.partitions), 'partition')}, and shuts its producer out: one that is "
        "still at work fails."
    )
    confirm: Child = element("p", f"No transaction is open, it is {found.state}.")
    if found.is_open:
        confirm = (
            element("p", warning),
            form(
                address("transactions", name, "abort"),
                submit="Abort the transaction",
                is_danger=True,
            ),
        )
    content = PageContent(title=name, body=(confirm, open_places(found)), refused=problems)
    return page(console, request, content, 409 if problems else 200)


async def show_hanging(console: Console, request: WebRequest) -> Answer:
    """Search for hanging transactions. Raises NotFoundError, ClientError."""
    return await _hanging_page(console, request, ())


async def do_abort_hanging(console: Console, request: WebRequest) -> Answer:
    """Abort one transaction in its partition. Raises RefusedError for what is not a number."""
    filled = request.form
    place = TopicPartition(filled.text("topic"), filled.number("partition", 0))
    try:
        sentence = await abort_hanging(console.cluster, place, filled.number("start", 0))
    except CHANGE_ERRORS as error:
        return await _hanging_page(console, request, (sentence_of(error),))
    return to_page(console, "hanging-transactions", said=(sentence,))


async def _hanging_page(console: Console, request: WebRequest, problems: tuple[str, ...]) -> Answer:
    query = request.query
    minutes = query.number("minutes", _LONGEST_MINUTES)
    topics = query.names("topics")
    now_ms = unix_now_ms()
    found = await hanging_transactions(console.cluster, topics, now_ms, minutes * _MINUTE_MS)
    chosen = element(
        "form",
        field("topics", "Of topics", query.text("topics"), "empty: of all, or a,b"),
        field(
            "minutes", "Minutes without a record", str(minutes),
            "the longest that transaction.max.timeout.ms allows", inputmode="numeric",
        ),
        element("p", element("button", "Search")),
        method="get",
        action=HANGING_PATH,
        class_="change",
    )  # fmt: skip
    content = PageContent(
        title="Hanging transactions",
        body=(chosen, *_found(console, found)),
        refused=problems,
        gaps=found.gaps,
    )
    return page(console, request, content, 409 if problems else 200)


def _found(console: Console, found: HangingTransactions) -> tuple[Html, ...]:
    searched = counted(found.partitions, "partition")
    rows = [_row(each, may_abort=console.may_write) for each in found.hanging[:_SHOWN_ROWS]]
    young = [_row(each, may_abort=False) for each in found.young[:_SHOWN_ROWS]]
    return (
        section(
            f"{counted(len(found.hanging), 'hanging transaction')} in {searched}",
            table("Hanging", _COLUMNS, rows, "None hangs."),
        ),
        section(
            "Open, of no coordinator, but written to lately",
            table("Young", _COLUMNS, young, "None."),
        ),
        element(
            "p",
            f"Coordinators will end {counted(found.owned, 'other open transaction')}.",
            class_="quiet",
        ),
    )


def _row(row: OpenTransaction, *, may_abort: bool) -> tuple[Child, ...]:
    abort_it: Child = None
    if may_abort:
        fields = {
            "topic": row.place.topic,
            "partition": str(row.place.partition),
            "start": str(row.start_offset),
        }
        abort_it = form(
            HANGING_PATH,
            *hidden(fields),
            submit="Abort",
            is_danger=True,
        )
    return (
        str(row.place),
        number(row.start_offset),
        str(row.producer_id),
        str(row.producer_epoch),
        moment(row.last_timestamp_ms),
        abort_it,
    )


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/abort", respond=show_abort, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/abort", respond=do_abort),
    WebRoute(pattern=HANGING_PATH, respond=show_hanging),
    WebRoute(method="POST", pattern=HANGING_PATH, respond=do_abort_hanging),
)
