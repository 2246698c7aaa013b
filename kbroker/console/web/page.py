"""The frame of every page: head, navigation, notices; and answers that are pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.client.exit_code import ExitCode
from kbroker.console.topic_lookup import NotFoundError
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, document, element, joined
from kbroker.console.web.views import LookRefusedError
from kbroker.console.web.web_request import WebRequest, address
from kbroker.http.answers import Answer
from kbroker.wording import shown

HTML: Final = "text/html; charset=utf-8"
SCRIPTS: Final = ("console.js", "tail.js")
SECURITY: Final = (
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)
THEMES: Final = ("light", "dark")
_THEME_COOKIE: Final = "kbroker_theme"
_RETRY_S: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """The content of a page: its title, and what stands below. `gaps` and `refused` are sentences:
    about what is not known, and what was not done. With `refresh_s` the page looks again by itself
    that often, while nobody is at work in it.
    """

    title: str
    body: Child
    gaps: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    refresh_s: int | None = None


def page(console: Console, request: WebRequest, content: PageContent, status: int = 200) -> Answer:
    """Return a whole page."""
    noted = console.notes.take(request.query.text("noted"))
    main = element(
        "main",
        element("h1", content.title),
        _notice("done", noted),
        _notice("refused", content.refused, role="alert"),
        content.body,
        _notice("gaps", content.gaps),
        id="main",
        tabindex=-1,
        data_refresh=content.refresh_s,
    )
    whole = element(
        "html",
        _head(content),
        element("body", *_top(console, request), main, _keys(console)),
        lang="en",
        data_theme=_theme(request),
    )
    return Answer(status=status, body=document(whole), content_type=HTML, headers=SECURITY)


def to_page(console: Console, *segments: str | int, said: tuple[str, ...] = ()) -> Answer:
    """Return an answer that leads a browser to another page, which shows the sentences."""
    noted = console.notes.keep(said) if said else None
    return Answer(status=303, headers=(("location", address(*segments, noted=noted)), *SECURITY))


def error_page(
    console: Console, request: WebRequest, status: int, sentence: str, *, is_passing: bool = False
) -> Answer:
    """Return a page that holds one sentence; if that may change, it looks again by itself."""
    titles = {403: "Not allowed", 404: "Not found", 503: "No answer"}
    again = (
        element("p", f"This page looks again every {_RETRY_S} seconds.", class_="quiet")
        if is_passing
        else None
    )
    content = PageContent(
        title=titles.get(status, "Not possible"),
        body=again,
        refused=(sentence,),
        refresh_s=_RETRY_S if is_passing else None,
    )
    return page(console, request, content, status)


def status_of(error: EndingError) -> int:
    """Return the status for an error of a cluster."""
    if isinstance(error, NotFoundError):
        return 404
    if isinstance(error, LookRefusedError):
        return 403
    if error.code is ExitCode.USAGE:
        return 400
    if error.code in (ExitCode.CANNOT_CONNECT, ExitCode.TIMEOUT):
        return 503
    return 409


def bare_page(request: WebRequest, content: PageContent, status: int) -> Answer:
    """Return a page for somebody who has not logged in: without navigation and script."""
    main = element(
        "main", element("h1", content.title), _notice("refused", content.refused, role="alert"),
        content.body, id="main", tabindex=-1,
    )  # fmt: skip
    header = element("header", element("span", "kbroker", class_="brand"))
    whole = element(
        "html",
        _head(content, scripts=()),
        element("body", header, main),
        lang="en",
        data_theme=_theme(request),
    )
    return Answer(status=status, body=document(whole), content_type=HTML, headers=SECURITY)


def _head(content: PageContent, scripts: tuple[str, ...] = SCRIPTS) -> Html:
    away = None
    if content.refresh_s is not None:
        again = element("meta", http_equiv="refresh", content=max(content.refresh_s, 5))
        away = element("noscript", again)
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{content.title} - kbroker"),
        element("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="/static/console.css"),
        *(element("script", src=f"/static/{name}", defer=True) for name in scripts),
        away,
    )


def _top(console: Console, request: WebRequest) -> tuple[Html, ...]:
    links = [
        element(
            "a",
            entry.title,
            href=entry.path,
            data_key=entry.key,
            aria_current="page" if _is_below(request.path, entry.path) else None,
        )
        for entry in console.navigation
    ]
    limits = [
        element("span", text, class_="limit")
        for is_set, text in (
            (console.options.read_only, "read-only"),
            (console.options.no_messages, "no messages"),
        )
        if is_set
    ]
    theme = element(
        "button", "Theme", type="button", id="theme", hidden=True, title="light, dark, or as set"
    )
    return (
        element("a", "Skip to the content", href="#main", class_="skip"),
        element(
            "header",
            element("a", "kbroker", href="/overview", class_="brand"),
            element("nav", *links, aria_label="Console"),
            *limits,
            element("span", shown(console.cluster.bootstrap), class_="cluster", title="Cluster"),
            _log_out(console.user),
            theme,
        ),
        element("div", role="status", id="away", hidden=True),
    )


def _log_out(user: str | None) -> Html | None:
    if user is None:
        return None
    button = element("button", "Log out", title=f"Logged in as {shown(user)}")
    return element(
        "form", element("span", shown(user), class_="user"), button, method="post",
        action="/logout", class_="session",
    )  # fmt: skip


def _keys(console: Console) -> Html:
    """Return the list of keys, which a question mark opens."""
    rows = [("/", "find"), ("?", "this list"), ("Esc", "leave a field, close this list")]
    rows.append(("p", "pause the live tail, go on"))
    rows += [(f"g {entry.key}", entry.title) for entry in console.navigation]
    listed = [
        joined(element("dt", element("kbd", key)), element("dd", meaning)) for key, meaning in rows
    ]
    close = element("form", element("button", "Close"), method="dialog")
    return element(
        "dialog", element("h2", "Keys"), element("dl", *listed), close, id="keys",
        aria_label="Keys",
    )  # fmt: skip


def _notice(kind: str, sentences: tuple[str, ...], role: str = "status") -> Html | None:
    if not sentences:
        return None
    listed = [element("li", sentence) for sentence in sentences]
    return element("div", element("ul", *listed), class_=f"notice {kind}", role=role)


def _theme(request: WebRequest) -> str | None:
    """Return the theme that this browser was set to; it has none of its own as long as it follows
    the system.
    """
    for each in request.headers.get("cookie", "").split(";"):
        name, _, value = each.strip().partition("=")
        if name == _THEME_COOKIE and value in THEMES:
            return value
    return None


def _is_below(path: str, entry: str) -> bool:
    return path == entry or path.startswith(f"{entry}/")
