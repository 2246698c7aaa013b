"""Rules, users and quotas, each found by a text a page at a time."""

from __future__ import annotations

from typing import Final

from kbroker.client.quota_words import DEFAULT_NAME
from kbroker.console.access import QuotaRow, RuleRow, UserRow, quotas, rules, users
from kbroker.console.pages import Wanted
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import PageContent, page
from kbroker.console.web.parts import Column, pager, search_form, size, subject_frame, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.web_request import WebRequest
from kbroker.http.answers import Answer
from kbroker.quotas.quota_entity import CLIENT_ID, IP, USER
from kbroker.quotas.quota_keys import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)

PATH: Final = "/access"
_TABS: Final = (("Rules", ""), ("Users", "users"), ("Quotas", "quotas"))
_REFRESH_S: Final = 30
_RULE_COLUMNS = (
    Column("Principal"),
    Column("Permission"),
    Column("Operation"),
    Column("Resource"),
    Column("Name"),
    Column("Pattern"),
    Column("From"),
)
_USER_COLUMNS = (Column("User"), Column("Mechanisms"), Column("Iterations"))
_QUOTA_COLUMNS = (
    Column("User"),
    Column("Client id"),
    Column("Address"),
    Column("Quota"),
    Column("A second", is_number=True),
)


async def list_rules(console: Console, request: WebRequest) -> Answer:
    """List rules of access. Raises ClientError."""
    wanted = _wanted(request)
    found = await rules(console.cluster, wanted)
    empty = "No rule has this text." if wanted.search else "There is no rule."
    body = (
        _frame(""),
        search_form(request, "Text"),
        pager(request, found.page, "rule"),
        table("Rules", _RULE_COLUMNS, map(_rule, found.page.rows), empty),
        _hint("acl"),
    )
    return _shown(console, request, "Access", body, found.gaps)


async def list_users(console: Console, request: WebRequest) -> Answer:
    """List users of the cluster. Raises ClientError."""
    wanted = _wanted(request)
    found = await users(console.cluster, wanted)
    empty = "No user of this name." if wanted.search else "The cluster has no users of its own."
    body = (
        _frame("users"),
        search_form(request, "Name"),
        pager(request, found.page, "user"),
        table("Users", _USER_COLUMNS, map(_user, found.page.rows), empty),
        _hint("user", "Users in settings files and those of tokens are not among them. "),
    )
    return _shown(console, request, "Users", body, found.gaps)


async def list_quotas(console: Console, request: WebRequest) -> Answer:
    """List quotas of users, client ids and addresses. Raises ClientError."""
    wanted = _wanted(request)
    found = await quotas(console.cluster, wanted)
    empty = "No quota is for such a name." if wanted.search else "There is no quota."
    lines = (line for row in found.page.rows for line in _quota(row))
    body = (
        _frame("quotas"),
        search_form(request, "Whose"),
        pager(request, found.page, "owner"),
        table("Quotas", _QUOTA_COLUMNS, lines, empty),
        _hint("quota", "Each broker allows so much by itself. "),
    )
    return _shown(console, request, "Quotas", body, found.gaps)


def _shown(
    console: Console,
    request: WebRequest,
    title: str,
    body: tuple[Child, ...],
    gaps: tuple[str, ...],
) -> Answer:
    content = PageContent(title=title, body=body, gaps=gaps, refresh_s=_REFRESH_S)
    return page(console, request, content)


def _wanted(request: WebRequest) -> Wanted:
    return Wanted(search=request.query.text("q"), page=request.query.page())


def _frame(opened: str) -> Html:
    return subject_frame("Access", PATH, _TABS, (), opened)


def _hint(command: str, before: str = "") -> Html:
    named = element("code", f"kbroker {command}")
    return element("p", before, named, " changes them.", class_="quiet")


def _rule(row: RuleRow) -> tuple[Child, ...]:
    is_deny = row.permission == "deny"
    return (
        row.principal,
        element("span", row.permission, class_="warn" if is_deny else None),
        row.operation,
        row.resource,
        row.name,
        row.pattern,
        "everywhere" if row.host == "*" else row.host,
    )


def _user(row: UserRow) -> tuple[Child, ...]:
    iterations = ", ".join(f"{each:,}" for each in row.mechanisms.values())
    return row.name, ", ".join(row.mechanisms), iterations


def _quota(row: QuotaRow) -> list[tuple[Child, ...]]:
    whose = tuple(_named(row, kind) for kind in (USER, CLIENT_ID, IP))
    return [(*whose, key, _value(key, value)) for key, value in row.values.items()]


def _named(row: QuotaRow, kind: str) -> str:
    name = row.entity.get(kind, "")
    return DEFAULT_NAME if name is None else name


def _value(key: str, value: float) -> str:
    if key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE):
        return size(value)
    return f"{value:,g} %" if key == REQUEST_PERCENTAGE else f"{value:,g}"


ROUTES: Final = (
    WebRoute(pattern=PATH, respond=list_rules),
    WebRoute(pattern=f"{PATH}/users", respond=list_users),
    WebRoute(pattern=f"{PATH}/quotas", respond=list_quotas),
)
