"""The addresses of all pages of the console, from its routes: a new screen is among them at once."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.request import urlopen

from kbroker.console.web.screens import SCREENS
from tests.integration.console.consoled_clusters import LONG_TOPIC, ConsoledCluster

_NO_PAGES: Final = ("static", "api")
_STATES: Final = (
    "/topics?internal=1",
    f"/topics/{LONG_TOPIC}",
    f"/topics/{LONG_TOPIC}/delete",
    "/topics/orders/messages?text=red&json=%24.price+%3E%3D+10",
    "/topics/orders/messages?partitions=0&from=1&rows=2",
    "/topics/orders/messages/0/4",
    "/topics/orders/settings?all=1&name=retention.ms",
    "/topics/orders/produce?partition=0&offset=4",
    "/topics/orders/trim?before=end",
    "/topics/__consumer_offsets/messages",
    "/topics/payments/messages?uncommitted=1",
    "/topics/payments/producers",
    "/groups/team",
    "/groups/team/members",
    "/groups/readers/reset?to=latest",
    "/requests?client_id=*&paused=1",
)
"""What some pages show besides, by their queries, or of a thing that is out of the ordinary."""


def pages(cluster: ConsoledCluster) -> Iterator[str]:
    """Yield the paths of pages; of each route that answers with one, and of further states."""
    places = cluster.places()
    for path in dict.fromkeys(_filled(pattern, places) for pattern in _patterns()):
        with urlopen(f"{cluster.url}{path}") as answer:
            if answer.headers["content-type"].startswith("text/html"):
                yield path
    yield from _STATES


def _patterns() -> Iterator[str]:
    for screen in SCREENS:
        if screen.segments[0] in _NO_PAGES:
            continue
        for module in screen.modules:
            for route in importlib.import_module(module).ROUTES:
                if route.method == "GET":
                    yield route.pattern


def _filled(pattern: str, places: Mapping[str, str]) -> str:
    return re.sub(r"{(\w+)}", lambda found: places[found[1]], pattern)
