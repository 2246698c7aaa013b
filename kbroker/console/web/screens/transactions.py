"""Transactions: the ids that producers use, found by name a page at a time, and one of them."""

from __future__ import annotations

from typing import Final

from kbroker.client.transactions import OPEN_STATES, DescribedTransaction
from kbroker.console.pages import Wanted
from kbroker.console.transactions import TransactionRow, transaction, transactions
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element, joined
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import (
    Column,
    checkbox,
    facts,
    link,
    moment,
    pager,
    search_form,
    table,
)
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import duration_text, named

PATH: Final = "/transactions/{id}"
HANGING_PATH: Final = "/hanging-transactions"
_MOST_NAMED = 5
_NO_PLACES: Final = ("", ".", "..")  # a browser takes these out of a path
_COLUMNS = (
    Column("Transactional id"),
    Column("State"),
    Column("Open since"),
    Column("Partitions"),
    Column("Producer id", is_number=True),
    Column("Coordinator", is_number=True),
)
_PLACE_COLUMNS = (Column("Topic"), Column("Partition", is_number=True))


async def list_transactions(console: Console, request: WebRequest) -> Answer:
    """List transactional ids. Raises ClientError."""
    only_open = request.query.flag("open")
    wanted = Wanted(search=request.query.text("q"), page=request.query.page())
    found = await transactions(console.cluster, wanted, only_open=only_open)
    empty = "No such transactional id." if wanted.search or only_open else "Nobody has used one."
    content = PageContent(
        title="Transactions",
        body=(
            link("Find hanging ones", HANGING_PATH, is_action=True),
            search_form(request, "Id", checkbox("open", "only open ones", is_set=only_open)),
            pager(request, found.page, "transactional id"),
            table("Transactional ids", _COLUMNS, map(_row, found.page.rows), empty),
        ),
        gaps=found.gaps,
        refresh_s=10,
    )
    return page(console, request, content)


async def show_transaction(console: Console, request: WebRequest) -> Answer:
    """Show one transactional id. Raises NotFoundError if nobody uses it, ClientError."""
    name = request.places["id"]
    found = await transaction(console.cluster, name)
    abort: Child = None
    if console.may_write and found.is_open:
        abort = element(
            "p",
            link("Abort", address("transactions", name, "abort"), is_action=True),
            class_="actions",
        )
    content = PageContent(
        title=name,
        body=(abort, facts(_facts(found)), open_places(found)),
        refresh_s=5,
    )
    return page(console, request, content)


def open_places(found: DescribedTransaction) -> Html:
    """Return the partitions that wait for the end of a transaction."""
    rows = [
        (link(each.topic, address("topics", each.topic, "producers")), str(each.partition))
        for each in found.partitions[:1_000]
    ]
    return table("Partitions", _PLACE_COLUMNS, rows, "No partition waits for its end.")


def _facts(found: DescribedTransaction) -> list[tuple[str, Child]]:
    times_out = found.times_out_ms
    return [
        ("State", _state(found.state)),
        ("Open since", "nothing is open" if found.start_ms is None else moment(found.start_ms)),
        ("Times out", "no" if times_out is None else moment(times_out)),
        ("Time-out", duration_text(found.timeout_ms / 1000)),
        ("Producer id", str(found.producer_id)),
        ("Producer epoch", str(found.producer_epoch)),
        ("Coordinator", link(f"broker {found.coordinator}", address("brokers", found.coordinator))),
    ]


def _row(row: TransactionRow) -> tuple[Child, ...]:
    name = row.transactional_id
    linked = joined(repr(name)) if name in _NO_PLACES else link(name, address("transactions", name))
    return (
        linked,
        _state(row.state),
        "" if row.start_ms is None else moment(row.start_ms),
        named(row.partitions, _MOST_NAMED),
        str(row.producer_id),
        str(row.coordinator),
    )


def _state(state: str) -> Html:
    return element("span", state, class_="warn" if state in OPEN_STATES else None)


ROUTES: Final = (
    WebRoute(pattern="/transactions", respond=list_transactions),
    WebRoute(pattern=PATH, respond=show_transaction),
)
