"""Brokers, and one of them with its settings, disks and versions of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kbroker.client.cluster_configs import DEFAULT_ORIGIN, Setting
from kbroker.console.broker import BrokerDetails, DiskRow, broker
from kbroker.console.overview import BrokerRow, overview
from kbroker.console.web.api.cluster_operations import broker_id_of
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import (
    UNKNOWN,
    Column,
    checkbox,
    facts,
    number,
    search_form,
    section,
    size,
    table,
)
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.overview import broker_table
from kbroker.console.web.screens.settings_table import settings_table
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer

PATH: Final = "/brokers"
_DISK_COLUMNS = (
    Column("Directory"),
    Column("Replicas", is_number=True),
    Column("Size", is_number=True),
    Column("Free", is_number=True),
    Column("Of", is_number=True),
    Column("Trouble"),
)
_API_COLUMNS = (Column("Request"), Column("Versions"))


async def show_brokers(console: Console, request: WebRequest) -> Answer:
    """List the brokers. Raises ClientError."""
    found = await overview(console.cluster)
    content = PageContent(title="Brokers", body=broker_table(found), gaps=found.gaps, refresh_s=10)
    return page(console, request, content)


async def show_broker(console: Console, request: WebRequest) -> Answer:
    """Show one broker. Raises NotFoundError if it is not there, ClientError."""
    broker_id = broker_id_of(request.places["broker"])
    found = await broker(console.cluster, broker_id)
    row = next(
        (each for each in (await overview(console.cluster)).brokers if each.broker_id == broker_id),
        None,
    )
    content = PageContent(
        title=f"Broker {broker_id}",
        body=(
            None if row is None else facts(_facts(row)),
            section("Disks", _disks(found)),
            section("Settings", *_settings(request, found.settings)),
            None if row is None else _apis(row),
        ),
        gaps=found.gaps,
    )
    return page(console, request, content)


def _facts(row: BrokerRow) -> list[tuple[str, Child]]:
    return [
        ("Address", f"{row.host}:{row.port}"),
        ("Rack", row.rack or "none"),
        ("Controller", "yes" if row.is_controller else "no"),
        ("Leads", f"{row.leaders:,} partitions"),
        ("Replicas", number(row.replicas)),
    ]


def _disks(found: BrokerDetails) -> Html:
    if found.disks is None:
        return element("p", f"The disks are {UNKNOWN}.", class_="empty")
    return table("Disks", _DISK_COLUMNS, map(_disk, found.disks), "It has no directory.")


def _disk(row: DiskRow) -> tuple[Child, ...]:
    return (
        row.path,
        number(row.partitions),
        size(row.size_bytes),
        size(row.usable_bytes),
        size(row.total_bytes),
        element("span", row.trouble or "", class_="bad"),
    )


def _settings(request: WebRequest, settings: Sequence[Setting] | None) -> list[Child]:
    if settings is None:
        return [element("p", f"The settings are {UNKNOWN}.", class_="empty")]
    text, shows_all = request.query.text("q").casefold(), request.query.flag("all")
    rows = [
        each
        for each in settings
        if (shows_all or text or each.origin != DEFAULT_ORIGIN) and text in each.name.casefold()
    ]
    form = search_form(request, "Name", checkbox("all", "also defaults", is_set=shows_all))
    return [form, settings_table(rows)]


def _apis(row: BrokerRow) -> Html:
    if row.apis is None:
        return section("Requests", element("p", "This broker does not answer.", class_="bad"))
    rows = [(name, f"{low} to {high}") for name, (low, high) in sorted(row.apis.items())]
    whole = element(
        "details",
        element("summary", f"{len(rows)} requests that it takes, with their versions"),
        table("Requests", _API_COLUMNS, rows, "none"),
        id="apis",
    )
    return section("Requests", whole)


ROUTES: Final = (
    WebRoute(pattern=PATH, respond=show_brokers),
    WebRoute(pattern=f"{PATH}/{{broker}}", respond=show_broker),
)
