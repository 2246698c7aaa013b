"""The first screen: the cluster at a glance."""

from __future__ import annotations

from typing import Final

from kbroker.console.overview import BrokerRow, Overview, Places, overview
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element, joined
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import UNKNOWN, Column, facts, link, number, section, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer

PATH: Final = "/overview"
_REFRESH_S = 10
_COLUMNS = (
    Column("Broker", is_number=True),
    Column("Address"),
    Column("Rack"),
    Column("Leads", is_number=True),
    Column("Replicas", is_number=True),
    Column("State"),
)


async def show_overview(console: Console, request: WebRequest) -> Answer:
    """Show brokers, and what is wrong with partitions. Raises ClientError."""
    found = await overview(console.cluster)
    content = PageContent(
        title="Overview",
        body=(
            facts(_facts(found)),
            section("Partitions", element("ul", *_health(found), class_="plain")),
            section("Brokers", broker_table(found)),
        ),
        gaps=found.gaps,
        refresh_s=_REFRESH_S,
    )
    return page(console, request, content)


def broker_table(found: Overview) -> Html:
    """Return the brokers of a cluster as a table."""
    return table("Brokers", _COLUMNS, map(_row, found.brokers), "No broker is registered.")


def _facts(found: Overview) -> list[tuple[str, Child]]:
    return [
        ("Brokers", number(len(found.brokers))),
        ("Topics", link(number(found.topics), "/topics")),
        ("Partitions", number(found.partitions)),
        ("Controller", "none" if found.controller_id is None else str(found.controller_id)),
        ("Version", _version(found.level)),
        ("Cluster id", found.cluster_id),
    ]


def _version(level: str | None) -> str | None:
    """Return the version without the name of its setting, unless it is only a number."""
    version = None if level is None else level.rpartition(" ")[2]
    return level if version is not None and version.isdecimal() else version


def _health(found: Overview) -> list[Html]:
    rows = (
        ("Without a leader", found.leaderless, "bad"),
        ("With fewer replicas in sync than min.insync.replicas", found.under_min_isr, "bad"),
        ("Under-replicated", found.under_replicated, "warn"),
        ("Being moved", found.reassigning, "warn"),
    )
    lines = [_line(text, places, style) for text, places, style in rows]
    if found.controller_id is None:
        sentence = "There is no controller: nothing can be changed."
        lines.insert(0, element("li", sentence, class_="bad"))
    return lines


def _line(text: str, places: Places | None, style: str) -> Html:
    if places is None:
        return element("li", f"{text}: {UNKNOWN}", class_="quiet")
    if not places.count:
        return element("li", f"{text}: none", class_="good")
    listed = [
        joined(link(str(place), address("topics", place.topic)), " ") for place in places.first
    ]
    more = places.count - len(places.first)
    details = element(
        "details",
        element("summary", f"{text}: {places.count:,}", class_=style),
        element("p", *listed, f"and {more:,} more" if more else None),
        id=f"places-{text.split(maxsplit=1)[0].lower()}",
    )
    return element("li", details)


def _row(broker: BrokerRow) -> tuple[Child, ...]:
    state = ["controller"] if broker.is_controller else []
    if broker.apis is None:
        state.append("does not answer")
    return (
        link(str(broker.broker_id), address("brokers", broker.broker_id)),
        f"{broker.host}:{broker.port}",
        broker.rack or "",
        number(broker.leaders),
        number(broker.replicas),
        element("span", ", ".join(state), class_="bad" if broker.apis is None else None),
    )


ROUTES: Final = (WebRoute(pattern=PATH, respond=show_overview),)
