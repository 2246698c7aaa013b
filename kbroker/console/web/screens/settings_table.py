"""Settings of a topic or a broker as a table, with where each value comes from, and the form that
changes one. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from kbroker.client.cluster_configs import DEFAULT_ORIGIN, Setting, origin_named
from kbroker.client.setting_changes import SettingChanges
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.parts import (
    UNKNOWN,
    Column,
    checkbox,
    field,
    link,
    search_form,
    section,
    table,
)
from kbroker.console.web.web_request import Fields, WebRequest

_COLUMNS: Final = (Column("Setting"), Column("Value"), Column("From"))
_RESET: Final = "reset"

ChangeAt = Callable[[Setting], str | None]
"""Returns the address at which a setting is changed, None if it cannot be."""


def found_settings(
    request: WebRequest,
    settings: Sequence[Setting] | None,
    change_at: ChangeAt = lambda _: None,
) -> list[Child]:
    """Return the settings that a page was asked for, below the form that finds others; those that
    have defaults only if they are asked for.
    """
    if settings is None:
        return [element("p", f"The settings are {UNKNOWN}.", class_="empty")]
    text, shows_all = request.query.text("q").casefold(), request.query.flag("all")
    rows = [
        each
        for each in settings
        if (shows_all or text or each.origin != DEFAULT_ORIGIN) and text in each.name.casefold()
    ]
    form = search_form(request, "Name", checkbox("all", "also defaults", is_set=shows_all))
    return [form, settings_table(rows, change_at)]


def settings_table(settings: Iterable[Setting], change_at: ChangeAt = lambda _: None) -> Html:
    """Return settings with their values, and their origins, the strongest first."""
    rows = ((_name(each, change_at(each)), _value(each), _origins(each)) for each in settings)
    return table("Settings", _COLUMNS, rows, "No setting of this kind.")


def change_form(
    place: str, settings: Sequence[Setting], filled: Fields, *more: Child, intro: str = ""
) -> Html:
    """Return the form that changes one of these settings, sent to a place. It has the value of now
    if a setting was chosen, and never a secret.
    """
    name = filled.text("name")
    chosen = next((each for each in settings if each.name == name), None)
    value = "" if chosen is None else chosen.value or ""
    if filled.text("action") and not (chosen and chosen.is_secret):
        value = filled.exact("value")
    options = (element("option", value=each.name) for each in settings)
    names = element("datalist", *options, id="names")
    buttons = element(
        "p",
        element("button", "Set", name="action", value="set", class_="primary"),
        " ",
        element("button", "Back to the default", name="action", value=_RESET),
    )
    form = element(
        "form",
        names,
        field("name", "Setting", name, list="names", required=True),
        field("value", "Value", value),
        *more,
        buttons,
        method="post",
        action=place,
        class_="change",
    )
    return section("Change a setting", element("p", intro) if intro else None, form)


def change_in(form: Fields) -> SettingChanges | None:
    """Return the change that a sent form asks for, None if it names no setting."""
    name = form.text("name")
    if not name:
        return None
    if form.text("action") == _RESET:
        return SettingChanges(deletes=[name])
    return SettingChanges(sets={name: form.exact("value")})


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
