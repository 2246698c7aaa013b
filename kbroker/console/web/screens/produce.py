"""Producing a message: a new one, one again, or a tombstone."""

from __future__ import annotations

from typing import Final

from kbroker.client.client_error import EndingError
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.message import message
from kbroker.console.producing import Produced, produce
from kbroker.console.topic import topic
from kbroker.console.topic_lookup import NotFoundError
from kbroker.console.web.console import Console
from kbroker.console.web.message_query import offsets_in
from kbroker.console.web.page import PageContent, page, to_page
from kbroker.console.web.parts import choice, field, form, text_area
from kbroker.console.web.routes import WebRoute
from kbroker.console.web.screens.message_form_fields import (
    HEADER_FORMS,
    KEY_FORMS,
    VALUE_FORMS,
    fields_of_record,
    new_message_of,
)
from kbroker.console.web.screens.topic_frame import PATH, topic_frame
from kbroker.console.web.web_request import Fields, RefusedError, WebRequest, address
from kbroker.errors import KafkaError
from kbroker.http.answers import Answer
from kbroker.model import TopicPartition

_HEADER_FORMS: Final = {name: name for name in HEADER_FORMS}


async def show_form(console: Console, request: WebRequest) -> Answer:
    """Show the form, empty or filled in from a message. Raises NotFoundError, ClientError."""
    name, again = request.places["topic"], request.query.text("again")
    if not again:
        await topic(console.cluster, name)  # is it there?
        return _form_page(console, request, request.query, ())
    if console.options.no_messages:
        raise RefusedError(403, "this console shows no content of messages (--no-messages)")
    places = offsets_in(again)
    if len(places) != 1:
        raise RefusedError(400, f"{again[:100]!r} is not PARTITION:OFFSET")
    ((partition, offset),) = places.items()
    opened = await message(console.cluster, TopicPartition(name, partition), offset)
    try:
        fields = fields_of_record(
            partition, opened.record, is_tombstone=request.query.flag("tombstone")
        )
    except ValueError as error:
        return _form_page(console, request, Fields(), (f"offset {offset}: {error}",))
    filled = Fields({each: [text] for each, text in fields.items()})
    return _form_page(console, request, filled, ())


async def send(console: Console, request: WebRequest) -> Answer:
    """Write the message that was entered, and lead to it."""
    name, filled = request.places["topic"], request.form
    try:
        new = new_message_of(name, filled, unix_now_ms())
        written = await produce(console.cluster, new)
    except NotFoundError as error:
        return _form_page(console, request, filled, (error.sentence,), 404)
    except EndingError as error:
        return _form_page(console, request, filled, (error.sentence,), 409)
    except (KafkaError, ValueError) as error:
        return _form_page(console, request, filled, (str(error),), 409)
    return _written_page(console, name, written)


def _written_page(console: Console, name: str, written: Produced) -> Answer:
    place, offset = written.place, written.offset
    at = "its broker does not say at which offset" if offset is None else f"offset {offset}"
    said = (f"written: {name}, partition {place.partition}, {at}",)
    if console.options.no_messages:
        return to_page(console, "topics", name, said=said)
    if offset is None:
        return to_page(console, "topics", name, "messages", said=said)
    return to_page(console, "topics", name, "messages", place.partition, offset, said=said)


def _form_page(
    console: Console,
    request: WebRequest,
    filled: Fields,
    problems: tuple[str, ...],
    status: int = 200,
) -> Answer:
    name = request.places["topic"]
    body = form(
        address("topics", name, "produce"),
        text_area("key", "Key", filled.exact("key"), is_short=True),
        choice("key_form", "The key is", KEY_FORMS, filled.text("key_form")),
        text_area("value", "Value", filled.exact("value")),
        choice("value_form", "The value is", VALUE_FORMS, filled.text("value_form")),
        text_area(
            "headers",
            "Headers",
            filled.exact("headers"),
            "NAME=VALUE, one in a line; NAME alone: null",
            is_short=True,
        ),
        choice("header_form", "Their values are", _HEADER_FORMS, filled.text("header_form")),
        field(
            "partition",
            "Partition",
            filled.text("partition"),
            "empty: by key, or any without one",
            inputmode="numeric",
        ),
        field("time", "Time", filled.text("time"), "empty: now; ms since 1970, -1h, or a date"),
        submit="Produce the message",
    )
    content = PageContent(
        title=name, body=(topic_frame(console, name, "produce"), body), refused=problems
    )
    return page(console, request, content, status)


ROUTES: Final = (
    WebRoute(pattern=f"{PATH}/produce", respond=show_form, asks_for_change=True),
    WebRoute(method="POST", pattern=f"{PATH}/produce", respond=send),
)
