"""One message: key, value and headers, as far as a page can hold them, and the bytes as files."""

from __future__ import annotations

from typing import Final

from kbroker.console.message import OpenedMessage, message
from kbroker.console.shown_values import OPEN_BYTES, ShownValue, laid_out
from kbroker.console.topic_lookup import NotFoundError
from kbroker.console.web.console import Console
from kbroker.console.web.html import Child, Html, element
from kbroker.console.web.page import SECURITY, PageContent, page
from kbroker.console.web.parts import Column, choice, facts, link, moment, section, size, table
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.elsewhere import elsewhere, record_command
from kbroker.console.web.screens.message_table import badge, decoders_in, message_address
from kbroker.console.web.screens.messages import as_file
from kbroker.console.web.screens.search_fields import DECODERS
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, RefusedError, WebRequest, address
from kbroker.http.answers import Answer
from kbroker.model import TopicPartition

_HEAD_LETTERS: Final = 16 * 1024
_HERE: Final = f"{PATH}/messages/{{partition}}/{{offset}}"


async def show_message(console: Console, request: WebRequest) -> Answer:
    """Show a message. Raises NotFoundError, ClientError, RefusedError for a field."""
    place, offset = place_in(request)
    query = request.query
    opened = await _opened(console, request)
    shows_more = query.flag("more")
    most_letters = OPEN_BYTES if shows_more else _HEAD_LETTERS
    key, value = (laid_out(each, most_letters) for each in (opened.key, opened.value))
    more = None if shows_more else request.with_query(more=1)
    content = PageContent(
        title=f"{place.topic}, partition {place.partition}, offset {offset}",
        body=(
            topic_frame(console, place.topic, "messages"),
            _actions(console, request, opened),
            facts(
                (
                    ("Time", moment(opened.row.timestamp_ms)),
                    ("Key", _size(opened.key)),
                    ("Value", _size(opened.value)),
                    ("Headers", str(len(opened.record.headers))),
                )
            ),
            _part(request, "key", key, more),
            _part(request, "value", value, more),
            _headers(opened),
            _decoders(request),
            elsewhere(
                request,
                message_address(place.topic, place.partition, offset),
                decoders_in(query),
                record_command(console, place.topic, query, place.partition, offset),
            ),
        ),
        gaps=opened.gaps,
    )
    return page(console, request, content)


def place_in(request: WebRequest) -> tuple[TopicPartition, int]:
    """Return the partition and the offset that a path names. Raises RefusedError."""
    places = Fields({name: [value] for name, value in request.places.items()})
    partition, offset = places.number("partition", 0), places.number("offset", 0)
    return TopicPartition(request.places["topic"], partition), offset


async def _opened(console: Console, request: WebRequest) -> OpenedMessage:
    place, offset = place_in(request)
    decoders = decoders_in(request.query)
    try:
        return await message(console.cluster, place, offset, **decoders)
    except ValueError as error:
        raise RefusedError(400, str(error)) from error


def _actions(console: Console, request: WebRequest, opened: OpenedMessage) -> Html:
    place, offset = place_in(request)
    decoders = decoders_in(request.query)
    again = f"{place.partition}:{offset}"
    links: list[Child] = []
    if offset:
        before = message_address(place.topic, place.partition, offset - 1, **decoders)
        links.append(link("Offset before", before, is_action=True))
    after = message_address(place.topic, place.partition, offset + 1, **decoders)
    links.append(link("Offset after", after, is_action=True))
    if console.may_write:
        to_form = address("topics", place.topic, "produce", again=again)
        links.append(link("Produce again", to_form, is_action=True))
        if opened.record.key is not None:
            tombstone = address("topics", place.topic, "produce", again=again, tombstone=1)
            links.append(link("Produce a tombstone for its key", tombstone, is_action=True))
    return element("p", *links, class_="actions")


def _size(value: ShownValue) -> str:
    return "null" if value.size_bytes < 0 else size(value.size_bytes)


def _part(request: WebRequest, name: str, value: ShownValue, more: str | None) -> Html:
    """Return key or value, with what may be done with it."""
    title = name.capitalize()
    if value.size_bytes <= 0:
        return section(title, element("p", badge(value)))
    ways: list[Child] = [
        element("button", "Copy", type="button", data_copy=f"#{name}", hidden=True),
        element("a", "Download", href=f"{request.path}/{name}", class_="action", download=True),
    ]
    if value.is_cut:
        note = f"The beginning of {size(value.size_bytes)}."
        ways.append(element("span", note, class_="quiet"))
        if more:
            ways.append(link("Show more", more, is_action=True))
    return section(
        title,
        element("p", badge(value), *ways, class_="actions"),
        element("p", f"Not as chosen: {value.reason}", class_="warn") if value.reason else None,
        element("pre", value.text, id=name, tabindex=0),
    )


def _headers(opened: OpenedMessage) -> Html | None:
    rows = opened.row.headers
    if not rows:
        return None
    columns = (Column("Header"), Column("Value"))
    listed = [
        (name, (badge(value), element("span", value.text, class_="mono"))) for name, value in rows
    ]
    hidden = len(opened.record.headers) - len(rows)
    note = element("p", f"{hidden:,} more are not shown.", class_="quiet") if hidden else None
    return section("Headers", table("Headers", columns, listed, ""), note)


def _decoders(request: WebRequest) -> Html:
    query = request.query
    return element(
        "details",
        element("summary", "Decoders"),
        element(
            "form",
            choice("key_decoder", "The key is", DECODERS, query.text("key_decoder")),
            choice("value_decoder", "The value is", DECODERS, query.text("value_decoder")),
            element("p", element("button", "Show")),
            method="get",
            action=request.path,
        ),
        id="decoders",
        open=bool(decoders_in(query)),
    )


async def download_value(console: Console, request: WebRequest) -> Answer:
    """Return the bytes of a value as a file. Raises NotFoundError, ClientError."""
    return _file(request, "value", (await _opened(console, request)).record.value)


async def download_key(console: Console, request: WebRequest) -> Answer:
    """Return the bytes of a key as a file. Raises NotFoundError, ClientError."""
    return _file(request, "key", (await _opened(console, request)).record.key)


def _file(request: WebRequest, name: str, data: bytes | None) -> Answer:
    if data is None:
        raise NotFoundError(f"the {name} of this message is null")
    place, offset = place_in(request)
    return Answer(
        body=data,
        content_type="application/octet-stream",
        headers=(as_file(f"{place}-{offset}.{name}"), *SECURITY),
    )


ROUTES: Final = (
    WebRoute(pattern=_HERE, respond=show_message, shows_messages=True),
    WebRoute(pattern=f"{_HERE}/value", respond=download_value, shows_messages=True),
    WebRoute(pattern=f"{_HERE}/key", respond=download_key, shows_messages=True),
)
