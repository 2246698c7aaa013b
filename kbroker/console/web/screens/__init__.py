"""The screens of the console, in the order of the navigation. A new screen is a module of its own,
which has `ROUTES`, and a row here; its modules are loaded when it is first asked for.
"""

from __future__ import annotations

from typing import Final

from kbroker.console.web.console import Entry
from kbroker.console.web.routes import Screen

_HERE: Final = "kbroker.console.web.screens"

SCREENS: Final = (
    Screen(
        entry=Entry(title="Overview", path="/overview", key="o"),
        segments=("overview",),
        modules=(f"{_HERE}.overview",),
    ),
    Screen(
        entry=Entry(title="Topics", path="/topics", key="t"),
        segments=("topics", "new-topic"),
        modules=(
            f"{_HERE}.topics",
            f"{_HERE}.topic",
            f"{_HERE}.topic_settings",
            f"{_HERE}.topic_changes",
            f"{_HERE}.topic_trim",
            f"{_HERE}.messages",
            f"{_HERE}.message",
            f"{_HERE}.tail",
            f"{_HERE}.produce",
            f"{_HERE}.producers",
            f"{_HERE}.topic_charts",
        ),
    ),
    Screen(
        entry=Entry(title="Groups", path="/groups", key="g"),
        segments=("groups",),
        modules=(
            f"{_HERE}.groups",
            f"{_HERE}.group",
            f"{_HERE}.group_changes",
            f"{_HERE}.group_charts",
        ),
    ),
    Screen(
        entry=Entry(title="Transactions", path="/transactions", key="x"),
        segments=("transactions", "hanging-transactions"),
        modules=(f"{_HERE}.transactions", f"{_HERE}.transaction_aborts"),
    ),
    Screen(
        entry=Entry(title="Brokers", path="/brokers", key="b"),
        segments=("brokers",),
        modules=(f"{_HERE}.brokers",),
    ),
    Screen(
        entry=Entry(title="Access", path="/access", key="a"),
        segments=("access",),
        modules=(f"{_HERE}.access",),
    ),
    Screen(
        entry=Entry(title="Connections", path="/connections", key="c"),
        segments=("connections",),
        modules=(f"{_HERE}.connections",),
    ),
    Screen(
        entry=Entry(title="Requests", path="/requests", key="r"),
        segments=("requests",),
        modules=(f"{_HERE}.requests",),
    ),
    Screen(
        entry=Entry(title="Charts", path="/charts", key="h"),
        segments=("charts",),
        modules=(f"{_HERE}.charts",),
    ),
    Screen(
        entry=Entry(title="Events", path="/events", key="e"),
        segments=("events",),
        modules=(f"{_HERE}.events",),
    ),
    Screen(segments=("static",), modules=("kbroker.console.web.static_files",)),
    Screen(segments=("api",), modules=("kbroker.console.web.api.routes",)),
)
