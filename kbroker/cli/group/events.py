"""`kbroker group describe --events`: what happened to groups lately, and why, as brokers say at
their HTTP addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kbroker.cli.broker.asked_over_http import events_at
from kbroker.cli.broker.http_address import HttpAddress
from kbroker.cli.shown.output import print_rows, say

_COLUMNS = ("group", "time", "event", "cause", "message")


def print_events(names: Sequence[str], addresses: Sequence[HttpAddress], output: str) -> None:
    """Print a line for each event of these groups. Raises CommandError as `events_at`."""
    found = {
        name: sorted(
            (event for each in addresses for event in events_at(each, name)),
            key=lambda event: int(event["at_ms"]),
        )
        for name in names
    }
    rows = [_row(name, event) for name, events in found.items() for event in events]
    if rows:
        print_rows(rows, _COLUMNS, output)
    asked = [each.url for each in addresses]
    for name, events in found.items():
        if not events:
            say(
                f"{name}: nothing has happened to it lately at {', '.join(asked)}; --url names "
                "the broker that coordinates it"
            )


def _row(name: str, event: Mapping[str, Any]) -> dict[str, Any]:
    moment = datetime.fromtimestamp(event["at_ms"] / 1000, UTC)
    return {
        "group": name,
        "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "event": event.get("event"),
        "cause": event.get("cause"),
        "message": event.get("message"),
    }
