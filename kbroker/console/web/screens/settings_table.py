"""Settings of a topic or a broker as a table, with where each value comes from. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kbroker.client.cluster_configs import Setting, origin_named
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.parts import Column, link, table

_COLUMNS: Final = (Column("Setting"), Column("Value"), Column("From"))


def settings_table(
    settings: Iterable[Setting], change_at: Callable[[Setting], str | None] = lambda _: None
) -> Html:
    """Return settings with their values, and their origins, the strongest first. `change_at` says
    where one is changed, if it may be.
    """
    rows = ((_name(each, change_at(each)), _value(each), _origins(each)) for each in settings)
    return table("Settings", _COLUMNS, rows, "No setting of this kind.")


def _name(setting: Setting, change_at: str | None) -> Html:
    name = element("code", setting.name)
    return name if change_at is None else link(name, change_at)


def _value(setting: Setting) -> Child:
    if setting.is_secret:
        return element("span", "secret", class_="quiet")
    if setting.value is None:
        return element("span", "not set", class_="quiet")
    return element("code", setting.value)


def _origins(setting: Setting) -> Child:
    """Return where the value comes from; below it, what it would be otherwise."""
    others = setting.synonyms[1:]
    if not others:
        return setting.origin
    rows = [
        element(
            "li",
            origin_named(source) or "set",
            ": ",
            element("code", "" if value is None else value),
        )
        for source, _, value in others
    ]
    return element("div", setting.origin, element("ul", *rows, class_="quiet"))
