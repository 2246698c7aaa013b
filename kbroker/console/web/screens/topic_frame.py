"""The frame of all pages of one topic: its tabs, and what may be done with it. Pure."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.console import Console
from kbroker.console.web.html import Html, element, joined
from kbroker.console.web.parts import link
from kbroker.console.web.web_request import address

PATH: Final = "/topics/{topic}"
TABS: Final = (
    ("Partitions", ""),
    ("Messages", "messages"),
    ("Live tail", "tail"),
    ("Settings", "settings"),
    ("Groups", "groups"),
    ("Producers", "producers"),
    ("Charts", "charts"),
    ("History", "history"),
)
"""Titles and last parts of the addresses of a topic's pages."""
_MESSAGE_TABS = ("messages", "tail")
_ACTIONS: Final = (
    ("Produce", "produce"),
    ("Add partitions", "grow"),
    ("Trim", "trim"),
    ("Delete", "delete"),
)


def topic_frame(console: Console, name: str, tab: str) -> Html:
    """Return the tabs of a topic, of which one is open, and the links to changes."""
    tabs = [
        element("a", title, href=_place(name, part), aria_current="page" if part == tab else None)
        for title, part in TABS
        if not (console.options.no_messages and part in _MESSAGE_TABS)
    ]
    actions = [link(title, _place(name, part), is_action=True) for title, part in _ACTIONS]
    return joined(
        element("nav", *tabs, class_="tabs", aria_label="Topic"),
        element("p", *actions, class_="actions") if console.may_write else None,
    )


def _place(name: str, part: str) -> str:
    return address("topics", name, part) if part else address("topics", name)
