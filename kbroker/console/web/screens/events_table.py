"""Events as a table: when something happened, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.parts import Column, moment, table

_COLUMNS = (Column("Time"), Column("Event"), Column("Why"))


def events_table(events: Iterable[dict[str, Any]]) -> Html:
    """Return events, the last first; each as `BrokerViews.events` has it."""
    rows = sorted(events, key=lambda each: -int(each["at_ms"]))
    return table("Events", _COLUMNS, map(_row, rows), "Nothing in the last day.")


def _row(event: dict[str, Any]) -> tuple[Child, ...]:
    return (
        moment(int(event["at_ms"])),
        element("span", str(event["event"]), class_="line"),
        str(event["message"]),
    )
