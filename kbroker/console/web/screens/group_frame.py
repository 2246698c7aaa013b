"""The frame of all pages of one group: its tabs, and what may be done with it. Pure."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.console import Console
from kbroker.console.web.html import Html, joined
from kbroker.console.web.parts import link, subject_frame
from kbroker.console.web.web_request import address

PATH: Final = "/groups/{group}"
_TABS: Final = (
    ("Offsets", ""),
    ("Members", "members"),
    ("Charts", "charts"),
    ("History", "history"),
)
_ACTIONS: Final = (("Reset offsets", "reset"), ("Delete", "delete"))
_NO_PLACES: Final = ("", ".", "..")  # a browser takes these out of a path


def group_frame(console: Console, group: str, tab: str) -> Html:
    """Return the tabs of a group, of which one is open, and the links to changes."""
    actions = _ACTIONS if console.may_write else ()
    return subject_frame("Group", address("groups", group), _TABS, actions, tab)


def group_link(group: str) -> Html:
    """Return a link to a group, or its name if no address can hold that."""
    if group in _NO_PLACES:
        return joined(repr(group))
    return link(group, address("groups", group))
