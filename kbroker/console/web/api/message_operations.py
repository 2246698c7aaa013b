"""Operations of the API on messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kbroker.console.message import message
from kbroker.console.messages import FoundMessages, messages
from kbroker.console.new_messages import MOST_ROWS, new_messages
from kbroker.console.producing import NewMessage, Produced, entered, produce
from kbroker.console.shown_values import AUTO, CHOICES, ShownValue
from kbroker.console.web.api.operation import Given, Operation, Parameter
from kbroker.console.web.console import Console
from kbroker.console.web.message_query import FIRST_FROM, search_of
from kbroker.console.web.web_request import Fields
from kbroker.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderToWrite:
    """A header of a message to be written; `form` as that of a value."""

    name: str
    value: str | None = None
    form: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageToWrite:
    """A message to be written: no key is null, and no value a tombstone. Forms are text, json, hex,
    base64, int32, int64. Without a partition it goes by its key, or to any; without a time (Unix
    ms) it has that of now.
    """

    key: str | None = None
    key_form: str = "text"
    value: str | None = None
    value_form: str = "text"
    headers: Sequence[HeaderToWrite] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message: key and value up to a MiB of each. `timestamp_ms` is Unix time."""

    partition: int
    offset: int
    timestamp_ms: int | None
    key: ShownValue
    value: ShownValue
    headers: tuple[tuple[str, ShownValue], ...]
    gaps: tuple[str, ...]


async def _list(console: Console, given: Given) -> FoundMessages:
    return await messages(console.cluster, search_of(given.places["topic"], given.query))


async def _tail(console: Console, given: Given) -> FoundMessages:
    return await new_messages(console.cluster, search_of(given.places["topic"], given.query))


async def _message(console: Console, given: Given) -> Message:
    places = Fields({name: [value] for name, value in given.places.items()})
    opened = await message(
        console.cluster,
        TopicPartition(given.places["topic"], places.number("partition", 0)),
        places.number("offset", 0),
        given.query.text("key_decoder", AUTO),
        given.query.text("value_decoder", AUTO),
    )
    row = opened.row
    return Message(
        partition=row.partition,
        offset=row.offset,
        timestamp_ms=row.timestamp_ms,
        key=opened.key,
        value=opened.value,
        headers=row.headers,
        gaps=opened.gaps,
    )


async def _produce(console: Console, given: Given) -> Produced:
    body: MessageToWrite = given.body
    new = NewMessage(
        topic=given.places["topic"],
        key=_bytes("key", body.key, body.key_form),
        value=_bytes("value", body.value, body.value_form),
        headers=[_header(each) for each in body.headers],
        partition=body.partition,
        timestamp_ms=body.timestamp_ms,
    )
    return await produce(console.cluster, new)


def _header(header: HeaderToWrite) -> tuple[str, bytes | None]:
    name = f"header {header.name[:100]!a}"
    _bytes(name, header.name, "text")  # half a character is refused
    return header.name, _bytes(name, header.value, header.form)


def _bytes(name: str, text: str | None, form: str) -> bytes | None:
    if text is None:
        return None
    try:
        return entered(text, form)
    except ValueError as error:
        raise ValueError(f"the {name}: {error}") from error


_DECODERS = (
    Parameter(name="key_decoder", summary=f"What keys are: {', '.join(CHOICES)}.", default=AUTO),
    Parameter(
        name="value_decoder", summary=f"What values are: {', '.join(CHOICES)}.", default=AUTO
    ),
)
_LOOKS = (
    Parameter(name="partitions", summary="Only these partitions, such as 0,3."),
    Parameter(name="text", summary="Only messages with this text in key, value or headers."),
    Parameter(name="key", summary="Only messages with this text in the key."),
    Parameter(name="header", summary="Only messages with this header: NAME, or NAME=TEXT."),
    Parameter(name="json", summary="Only messages whose value fits, such as $.price >= 10."),
    *_DECODERS,
    Parameter(
        name="uncommitted",
        summary="Also messages of open and aborted transactions.",
        type=bool,
        default=False,
    ),
)
_STARTS = "Offsets to go on from, as in `next_offsets`, such as 0:120,1:50."

OPERATIONS: Final = (
    Operation(
        name="listMessages",
        path="/topics/{topic}/messages",
        summary="Messages of a topic from a place on, those that fit.",
        answer=FoundMessages,
        function=_list,
        shows_messages=True,
        parameters=(
            Parameter(
                name="from",
                summary="start, end, an offset, -50 for the last 50, -1h, or a date.",
                default=FIRST_FROM,
            ),
            Parameter(name="to", summary="Before this place, in the same forms.", default="end"),
            Parameter(name="starts", summary=_STARTS),
            Parameter(name="rows", summary="Messages, up to 1,000.", type=int, default=50),
            *_LOOKS,
        ),
    ),
    Operation(
        name="tailMessages",
        path="/topics/{topic}/tail",
        summary="The newest messages since `starts`; without it, where to begin.",
        answer=FoundMessages,
        function=_tail,
        shows_messages=True,
        parameters=(
            Parameter(name="starts", summary=_STARTS),
            Parameter(name="rows", summary=f"Messages, up to {MOST_ROWS}.", type=int, default=50),
            *_LOOKS,
        ),
    ),
    Operation(
        name="getMessage",
        path="/topics/{topic}/messages/{partition}/{offset}",
        summary="One message, also of an aborted transaction.",
        answer=Message,
        function=_message,
        shows_messages=True,
        parameters=_DECODERS,
    ),
    Operation(
        name="produceMessage",
        method="POST",
        path="/topics/{topic}/messages",
        summary="Write a message, acknowledged by all replicas in sync.",
        answer=Produced,
        function=_produce,
        body=MessageToWrite,
    ),
)
