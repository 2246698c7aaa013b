"""Messages as rows of a table, each with a link to the whole one. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kbroker.console.kept_messages import MessageRow
from kbroker.console.shown_values import ShownValue
from kbroker.console.web.html import Child, Html, Tag, element, joined
from kbroker.console.web.message_query import LOOKS
from kbroker.console.web.parts import Column, link, moment, size, table_row
from kbroker.console.web.web_request import Fields, address

COLUMNS: Final = (
    Column("Offset", is_number=True),
    Column("Partition", is_number=True),
    Column("Time"),
    Column("Key"),
    Column("Value"),
    Column("Headers"),
)
_MONO: Final = Tag("span", class_="mono")
_VALUE_LETTERS: Final = 400
_KEY_LETTERS: Final = 100
_HEADERS: Final = 5
_PLAIN_KINDS: Final = ("text", "json", "int")  # that one sees


def message_rows(topic: str, query: Fields, rows: Iterable[MessageRow]) -> list[Html]:
    """Return rows of a table with `COLUMNS`; links keep the decoders of the query."""
    path, decoders = address("topics", topic, "messages"), address(**decoders_in(query))
    return [
        table_row(COLUMNS, _cells(f"{path}/{row.partition}/{row.offset}{decoders}", row))
        for row in rows
    ]


def decoders_in(query: Fields) -> dict[str, str]:
    """Return the fields of a query that say what keys and values are."""
    return {
        name: query.text(name) for name in LOOKS if name.endswith("decoder") if query.text(name)
    }


def message_address(topic: str, partition: int, offset: int, **query: str | int | None) -> str:
    """Return the address of one message."""
    return address("topics", topic, "messages", partition, offset, **query)


def badge(value: ShownValue) -> Html | None:
    """Return what a value was taken for, unless one sees it."""
    return None if value.kind in _PLAIN_KINDS else element("span", value.kind, class_="kind")


def _cells(href: str, row: MessageRow) -> tuple[Child, ...]:
    return (
        link(str(row.offset), href),
        str(row.partition),
        moment(row.timestamp_ms),
        _short(row.key, _KEY_LETTERS),
        _short(row.value, _VALUE_LETTERS),
        _headers(row),
    )


def _short(value: ShownValue, most_letters: int) -> Html:
    is_cut = value.is_cut or len(value.text) > most_letters
    more = f" … {size(value.size_bytes)}" if is_cut else None
    return joined(
        badge(value),
        _MONO(value.text[:most_letters]),
        element("span", more, class_="quiet") if more else None,
    )


def _headers(row: MessageRow) -> Child:
    listed = [f"{name}={value.text}"[:_KEY_LETTERS] for name, value in row.headers[:_HEADERS]]
    if len(row.headers) > _HEADERS:
        listed.append("…")
    return [element("div", each, class_="mono") for each in listed]
