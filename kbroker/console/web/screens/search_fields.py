"""The fields of a search of messages. Pure."""

from __future__ import annotations

from typing import Final

from kbroker.console.shown_values import AUTO, CHOICES
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.message_query import FIRST_FROM, LOOKS
from kbroker.console.web.parts import checkbox, choice, field
from kbroker.console.web.web_request import Fields, WebRequest

_FROM_HINT: Final = "start, end, an offset, -50 for the last 50, -1h, 2026-11-21T10:00"
DECODERS: Final = {"" if name == AUTO else name: name for name in CHOICES}
"""Labels of decoders by the value that an address has, which has none for the usual one."""


def search_fields(request: WebRequest, *, has_places: bool, submit: str) -> Html:
    """Return the form; `has_places`: it also asks where to begin and to end, and for how many."""
    query = request.query
    places: tuple[Child, ...] = ()
    if has_places:
        places = (
            field("from", "From", query.text("from"), _FROM_HINT, placeholder=FIRST_FROM),
            field("to", "To", query.text("to"), "before this place", placeholder="end"),
            field("rows", "Rows", query.text("rows"), placeholder="50", inputmode="numeric"),
        )
    filters = (
        _exact("key", "Key", query, "holds this text"),
        _exact("header", "Header", query, "NAME, or NAME=TEXT that it holds"),
        _exact("json", "JSON of the value", query, '$.order.lines[0].price >= 10, $.name ~ "an"'),
    )
    decoders = (
        choice("key_decoder", "Keys are", DECODERS, query.text("key_decoder")),
        choice("value_decoder", "Values are", DECODERS, query.text("value_decoder")),
        checkbox(
            "uncommitted",
            "also open and aborted transactions",
            is_set=query.flag("uncommitted"),
        ),
    )
    more = element(
        "details",
        element("summary", "More filters, decoders"),
        element("div", *filters, *decoders, class_="filters"),
        id="more",
        open=any(query.text(name) for name in LOOKS if name not in ("partitions", "text")),
    )
    partitions = field(
        "partitions", "Partitions", query.text("partitions"), "0,3", placeholder="all"
    )
    text = _exact("text", "Text", query, "in key, value or headers", data_find=True)
    return element(
        "form",
        element("div", *places, partitions, text, class_="filters"),
        more,
        element("p", element("button", submit, class_="primary")),
        method="get",
        action=request.path,
        role="search",
    )


def _exact(
    name: str, label: str, query: Fields, hint: str, **attributes: str | int | bool | None
) -> Html:
    return field(name, label, query.exact(name), hint, **attributes)
