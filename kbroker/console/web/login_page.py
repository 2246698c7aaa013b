"""The page on which the user of a broker logs in. It stands before any console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kbroker.console.web.html import element
from kbroker.console.web.page import PageContent, bare_page
from kbroker.console.web.parts import field, form, hidden
from kbroker.console.web.web_request import Fields, WebRequest
from kbroker.http.answers import Answer

_LOGIN: Final = "/login"
_HINT: Final = "a user of this broker, as its clients log in"


def login_page(headers: Mapping[str, str], after: str, refused: str | None, status: int) -> Answer:
    """Return the page with the form; `after` is the path that it goes on with."""
    request = WebRequest(method="GET", path=_LOGIN, query=Fields(), headers=headers)
    body = form(
        _LOGIN,
        field("user", "User", hint=_HINT, required=True, autofocus=True, autocapitalize="none"),
        field("password", "Password", type="password", required=True),
        *hidden({"next": after}),
        submit="Log in",
    )
    note = element(
        "p", "Whoever logs in here has the rights of this user at the cluster.", class_="quiet"
    )
    content = PageContent(
        title="Log in", body=[body, note], refused=() if refused is None else (refused,)
    )
    return bare_page(request, content, status)
