"""Parts that many pages have: tables, lists of facts, forms, numbers and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, TypeAlias

from kbroker.console.pages import Page
from kbroker.console.web.html import Child, Html, Tag, element, exact, joined
from kbroker.console.web.web_request import WebRequest
from kbroker.wording import counted

UNKNOWN: Final = "not known"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024

Titles: TypeAlias = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its head, and whether it holds numbers, which stand on the right."""

    head: str
    is_number: bool = False


def table(
    label: str, columns: Sequence[Column], rows: Iterable[Sequence[Child]], empty: str
) -> Html:
    """Return a table; on a narrow screen each row becomes a list with the heads beside the values.
    `empty` is said if there are no rows.
    """
    lines = [table_row(columns, row) for row in rows]
    if not lines:
        return element("p", empty, class_="empty")
    return table_of(label, columns, element("tbody", *lines))


def table_of(label: str, columns: Sequence[Column], body: Html) -> Html:
    """Return a table with a body that was made already."""
    heads = [
        element("th", each.head, scope="col", class_="number" if each.is_number else None)
        for each in columns
    ]
    head = element("thead", element("tr", *heads))
    return element("table", element("caption", label), head, body)


def table_row(columns: Sequence[Column], row: Sequence[Child]) -> Html:
    """Return one row of a table."""
    cells = [
        _cell(column, is_first=number == 0)(value)
        for number, (column, value) in enumerate(zip(columns, row, strict=True))
    ]
    return _ROW(*cells)


_ROW: Final = Tag("tr")


@cache
def _cell(column: Column, *, is_first: bool) -> Tag:
    classes = "number" if column.is_number else None
    if is_first:
        return Tag("th", scope="row", data_head=column.head, class_=classes)
    return Tag("td", data_head=column.head, class_=classes)


def facts(rows: Iterable[tuple[str, Child]]) -> Html:
    """Return a list of names and values."""
    return element(
        "dl",
        *(
            element("div", element("dt", name), element("dd", _known(value)))
            for name, value in rows
        ),
        class_="facts",
    )


def section(title: str, *children: Child) -> Html:
    """Return a part of a page with a heading of its own."""
    return element("section", element("h2", title), *children)


def link(text: Child, href: str, *, is_action: bool = False) -> Html:
    """Return a link; an action looks like a button."""
    return element("a", text, href=href, class_="action" if is_action else None)


def number(value: int | None) -> str:
    """`1,234`, or that it is not known."""
    return UNKNOWN if value is None else f"{value:,}"


def size(value: float | None) -> str:
    """`1.5 KiB`, or that it is not known.

    >>> size(1536), size(10), size(None)
    ('1.5 KiB', '10 B', 'not known')
    """
    if value is None:
        return UNKNOWN
    scaled = float(value)
    for unit in _UNITS:
        if scaled < _STEP or unit == _UNITS[-1]:
            break
        scaled /= _STEP
    return f"{scaled:.0f} {unit}" if unit == "B" else f"{scaled:.1f} {unit}"


def moment(milliseconds: int | None) -> Html:
    """Return a time in UTC, of Unix milliseconds; a browser shows its own time zone beside it."""
    if milliseconds is None:
        return joined(UNKNOWN)
    try:
        at = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return joined(str(milliseconds))
    stamp = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return element("time", stamp.replace("T", " "), datetime=stamp)


def search_form(request: WebRequest, label: str, *more: Child) -> Html:
    """Return the form that finds rows by a text, which follows the typing."""
    field = element(
        "input",
        type="search",
        id="q",
        name="q",
        value=request.query.text("q"),
        autocomplete="off",
        spellcheck="false",
        data_find=True,
    )
    named = element("label", element("span", label), field)
    return element(
        "form", named, *more, element("button", "Find"), method="get", action=request.path,
        role="search", class_="bar", data_live=True,
    )  # fmt: skip


def checkbox(name: str, label: str, *, is_set: bool) -> Html:
    """Return a box to tick."""
    box = element("input", type="checkbox", name=name, value="1", checked=is_set, id=f"f-{name}")
    return element("label", box, element("span", label), class_="check")


def field(
    name: str, label: str, value: str = "", hint: str = "", **attributes: str | int | bool | None
) -> Html:
    """Return a field of a form with its label, and a hint below."""
    entry = element(
        "input", id=f"f-{name}", name=name, value=value, aria_describedby=_hint_of(name, hint),
        autocomplete="off", spellcheck="false", **attributes,
    )  # fmt: skip
    return _labelled(name, label, entry, hint)


def text_area(name: str, label: str, text: str, hint: str = "", *, is_short: bool = False) -> Html:
    """Return a field for several lines, which holds the text exactly."""
    area = element(
        "textarea", exact(text), id=f"f-{name}", name=name, class_="short" if is_short else None,
        spellcheck="false", autocomplete="off", aria_describedby=_hint_of(name, hint),
    )  # fmt: skip
    return _labelled(name, label, area, hint)


def choice(name: str, label: str, options: Mapping[str, str], chosen: str, hint: str = "") -> Html:
    """Return a list to choose from; `options`: labels by value."""
    rows = [
        element("option", text, value=value, selected=value == chosen)
        for value, text in options.items()
    ]
    described = _hint_of(name, hint)
    entry = element("select", *rows, id=f"f-{name}", name=name, aria_describedby=described)
    return _labelled(name, label, entry, hint)


def _hint_of(name: str, hint: str) -> str | None:
    return f"f-{name}-hint" if hint else None


def _labelled(name: str, label: str, entry: Html, hint: str) -> Html:
    return element(
        "div",
        element("label", label, for_=f"f-{name}"),
        entry,
        element("p", hint, class_="hint", id=_hint_of(name, hint)) if hint else None,
        class_="field",
    )


def hidden(fields: Mapping[str, str]) -> list[Html]:
    """Return fields of a form that nobody sees."""
    return [
        # A hidden input would lose its lines.
        element("textarea", value, name=name, hidden=True)
        if "\n" in value
        else element("input", type="hidden", name=name, value=value)
        for name, value in fields.items()
    ]


def form(action: str, *children: Child, submit: str, is_danger: bool = False) -> Html:
    """Return a form that changes something."""
    button = element("button", submit, class_="danger" if is_danger else "primary")
    return element(
        "form", *children, element("p", button), method="post", action=action, class_="change"
    )


def pager(request: WebRequest, page: Page[Any], noun: str) -> Html:
    """Return how many rows there are, and the links to the pages before and after."""
    links = []
    if page.number > 1:
        links.append(element("a", "Previous", href=request.with_query(page=page.number - 1)))
    if page.number < page.pages:
        links.append(element("a", "Next", href=request.with_query(page=page.number + 1)))
    text = counted(page.total, noun)
    if page.pages > 1:
        text = f"{text}, page {page.number:,} of {page.pages:,}"
    return element("p", element("span", text), *links, class_="pager")


def subject_frame(label: str, place: str, tabs: Titles, actions: Titles, opened: str) -> Html:
    """Return the tabs of a subject at an address, of which one is open, and the links to changes.
    Both are titles with the last parts of addresses, of which one may be empty.
    """

    def below(part: str) -> str:
        return f"{place}/{part}" if part else place

    shown = [
        element("a", title, href=below(part), aria_current="page" if part == opened else None)
        for title, part in tabs
    ]
    links = [link(title, below(part), is_action=True) for title, part in actions]
    return joined(
        element("nav", *shown, class_="tabs", aria_label=label),
        element("p", *links, class_="actions") if links else None,
    )


def _known(value: Child) -> Child:
    return UNKNOWN if value is None else value
