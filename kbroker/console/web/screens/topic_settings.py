"""The settings of a topic: where each value comes from, and how they are changed."""

from __future__ import annotations

from typing import Final

from kbroker.client.cluster_configs import DEFAULT_ORIGIN, Setting
from kbroker.console.topic import TopicDetails, topic
from kbroker.console.topic_changes import Done, configure_topic
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import UNKNOWN, checkbox, field, search_form, section
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import attempted, refused
from kbroker.console.web.screens.settings_table import settings_table
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, WebRequest, address
from kbroker.http.answers import Answer

_TAB: Final = "settings"
_RESET: Final = "reset"


async def show_settings(console: Console, request: WebRequest) -> Answer:
    """Show the settings of a topic. Raises NotFoundError if there is none, ClientError."""
    return await _page(console, request, request.query, ())


async def change_setting(console: Console, request: WebRequest) -> Answer:
    """Set a setting, or give it its default back. Raises NotFoundError, ClientError."""
    name, form = request.places["topic"], request.form
    setting = form.text("name")
    if not setting:
        outcome = refused(["name the setting"])
    elif form.text("action") == _RESET:
        outcome = await attempted(configure_topic(console.cluster, name, {}, [setting]))
    else:
        sets = {setting: form.exact("value")}
        outcome = await attempted(configure_topic(console.cluster, name, sets))
    if outcome.refused:
        return await _page(console, request, form, outcome.refused)
    return to_page(console, "topics", name, _TAB, said=_said(outcome, name, setting))


def _said(outcome: Done, name: str, setting: str) -> tuple[str, ...]:
    return outcome.said or (f"{name}: {setting} was changed",)


async def _page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    name = request.places["topic"]
    found = await topic(console.cluster, name)
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, _TAB),
            *_listed(console, request, found),
            _form(found, filled) if console.may_write and found.settings is not None else None,
        ),
        gaps=found.gaps,
        refused=problems,
    )
    return page(console, request, content, 409 if problems else 200)


def _listed(console: Console, request: WebRequest, found: TopicDetails) -> list[Child]:
    if found.settings is None:
        return [element("p", f"The settings are {UNKNOWN}.", class_="empty")]
    text, shows_all = request.query.text("q").casefold(), request.query.flag("all")
    rows = [
        each
        for each in found.settings
        if (shows_all or text or each.origin != DEFAULT_ORIGIN) and text in each.name.casefold()
    ]

    def change(setting: Setting) -> str | None:
        if not console.may_write:
            return None
        return address("topics", found.name, _TAB, name=setting.name, all=int(shows_all) or None)

    return [
        search_form(request, "Name", checkbox("all", "also defaults", is_set=shows_all)),
        settings_table(rows, change),
    ]


def _form(found: TopicDetails, filled: Fields) -> Html:
    """Return the form for one setting, with the value that it has now if it was chosen."""
    name = filled.text("name")
    values = {each.name: each.value or "" for each in found.settings or ()}
    value = filled.exact("value") if filled.text("action") else values.get(name, "")
    names = element("datalist", *(element("option", value=each) for each in values), id="names")
    buttons = element(
        "p",
        element("button", "Set", name="action", value="set", class_="primary"),
        " ",
        element("button", "Back to the default", name="action", value=_RESET),
    )
    return section(
        "Change a setting",
        element(
            "form",
            names,
            field("name", "Setting", name, list="names", required=True),
            field("value", "Value", value),
            buttons,
            method="post",
            action=address("topics", found.name, _TAB),
            class_="change",
        ),
    )


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/{_TAB}", respond=show_settings),
    WebRoute(method="POST", pattern=f"{PATH}/{_TAB}", respond=change_setting),
)
