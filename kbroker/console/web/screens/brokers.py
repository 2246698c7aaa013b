"""Brokers, and one of them: settings, which can be changed, disks, versions of requests."""

from __future__ import annotations

from typing import Final

from kbroker.client.cluster_configs import Setting
from kbroker.console.broker import BrokerDetails, DiskRow, broker, configure_broker
from kbroker.console.overview import BrokerRow, overview
from kbroker.console.web.api.cluster_operations import broker_id_of
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import (
    UNKNOWN,
    Column,
    checkbox,
    facts,
    number,
    section,
    size,
    table,
)
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import attempted, refused
from kbroker.console.web.screens.overview import broker_table
from kbroker.console.web.screens.settings_table import (
    ChangeAt,
    change_form,
    change_in,
    found_settings,
)
from kbroker.console.web.web_request import Fields, WebRequest, address
from kbroker.http.answers import Answer

PATH: Final = "/brokers"
_OF_ALL: Final = "of_all"
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
    return await _page(console, request, request.query, ())


async def change_setting(console: Console, request: WebRequest) -> Answer:
    """Set a setting, or give it its default back. Raises NotFoundError, ClientError."""
    broker_id, form = broker_id_of(request.places["broker"]), request.form
    changes, of_all = change_in(form), form.flag(_OF_ALL)
    if changes is None:
        outcome = refused(["name the setting"])
    else:
        change = configure_broker(console.cluster, broker_id, changes, of_all=of_all)
        outcome = await attempted(change)
    if outcome.refused:
        return await _page(console, request, form, outcome.refused)
    return to_page(console, "brokers", str(broker_id), said=outcome.said)


async def _page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    broker_id = broker_id_of(request.places["broker"])
    found = await broker(console.cluster, broker_id)
    row = next(
        (each for each in (await overview(console.cluster)).brokers if each.broker_id == broker_id),
        None,
    )
    settings = found_settings(request, found.settings, _change_at(console, request))
    content = PageContent(
        title=f"Broker {broker_id}",
        body=(
            None if row is None else facts(_facts(row)),
            section("Disks", _disks(found)),
            section("Settings", *settings),
            _form(console, found, filled),
            None if row is None else _apis(row),
        ),
        gaps=found.gaps,
        refused=problems,
    )
    return page(console, request, content, 409 if problems else 200)


def _change_at(console: Console, request: WebRequest) -> ChangeAt:
    shows_all = int(request.query.flag("all")) or None

    def change_at(setting: Setting) -> str | None:
        if not console.may_write or setting.is_read_only:
            return None
        return address("brokers", request.places["broker"], name=setting.name, all=shows_all)

    return change_at


def _form(console: Console, found: BrokerDetails, filled: Fields) -> Html | None:
    if not console.may_write or found.settings is None:
        return None
    return change_form(
        address("brokers", str(found.broker_id), "settings"),
        [each for each in found.settings if not each.is_read_only],
        filled,
        checkbox(_OF_ALL, "of all brokers", is_set=filled.flag(_OF_ALL)),
        intro="It is in force at once, and kept. Other settings need a restart.",
    )


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
    WebRoute(method="POST", pattern=f"{PATH}/{{broker}}/settings", respond=change_setting),
)
