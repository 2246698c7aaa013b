"""The settings of a topic: where each value comes from, and how they are changed."""

from __future__ import annotations

from typing import Final

from kbroker.client.cluster_configs import Setting
from kbroker.console.topic import topic
from kbroker.console.topic_changes import configure_topic
from kbroker.console.web.console import Console
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.attempts import attempted, refused
from kbroker.console.web.screens.settings_table import change_form, change_in, found_settings
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, WebRequest, address
from kbroker.http.answers import Answer

_TAB: Final = "settings"


async def show_settings(console: Console, request: WebRequest) -> Answer:
    """Show the settings of a topic. Raises NotFoundError if there is none, ClientError."""
    return await _page(console, request, request.query, ())


async def change_setting(console: Console, request: WebRequest) -> Answer:
    """Set a setting, or give it its default back. Raises NotFoundError, ClientError."""
    name, form = request.places["topic"], request.form
    changes = change_in(form)
    if changes is None:
        outcome = refused(["name the setting"])
    else:
        outcome = await attempted(configure_topic(console.cluster, name, changes))
    if outcome.refused:
        return await _page(console, request, form, outcome.refused)
    return to_page(console, "topics", name, _TAB, said=outcome.said)


async def _page(
    console: Console, request: WebRequest, filled: Fields, problems: tuple[str, ...]
) -> Answer:
    name = request.places["topic"]
    found = await topic(console.cluster, name)
    shows_all = int(request.query.flag("all")) or None

    def change(setting: Setting) -> str | None:
        if not console.may_write:
            return None
        return address("topics", name, _TAB, name=setting.name, all=shows_all)

    form = None
    if console.may_write and found.settings is not None:
        form = change_form(address("topics", name, _TAB), found.settings, filled)
    content = PageContent(
        title=name,
        body=(
            topic_frame(console, name, _TAB),
            *found_settings(request, found.settings, change),
            form,
        ),
        gaps=found.gaps,
        refused=problems,
    )
    return page(console, request, content, 409 if problems else 200)


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/{_TAB}", respond=show_settings),
    WebRoute(method="POST", pattern=f"{PATH}/{_TAB}", respond=change_setting),
)
