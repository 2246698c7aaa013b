"""The frame of all pages of one topic: its tabs, and what may be done with it. Pure."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.console import Console
from kbroker.console.web.html import Html
from kbroker.console.web.parts import subject_frame
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
        (title, part)
        for title, part in TABS
        if not (console.options.no_messages and part in _MESSAGE_TABS)
    ]
    actions = _ACTIONS if console.may_write else ()
    return subject_frame("Topic", address("topics", name), tabs, actions, tab)
