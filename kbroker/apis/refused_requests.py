"""Writes into the log what clients were refused, and which setting decided.

Law: one line for each API, code and topic (or group) in a minute, see `rare_lines`; clients change
neither its form nor its length, as whatever they send is escaped and cut. An answer without a
refusal costs a look at its codes; one to what clients send all the time costs nothing, as those
handlers know already.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kbroker.apis.now_or_later import then
from kbroker.apis.refusal_table import (
    Refused,
    deciding_settings,
    is_told,
    look_for_codes,
    name_in,
    refused_entries,
)
from kbroker.clock import Clock
from kbroker.config.config_values import to_text
from kbroker.config.kafka_config import KafkaConfig, config_key
from kbroker.config.topic_config import TopicConfig, topic_config_key
from kbroker.errors import ErrorCode
from kbroker.events.event import Note, cut, nobody_notes
from kbroker.line_fields import fields_of
from kbroker.model import TopicPartition
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.header import RequestHeader
from kbroker.protocol.request import OWN_SOFTWARE, ConnectionInfo, NoResponse, shown_client
from kbroker.protocol.schema import Message
from kbroker.rare_lines import RareLines, note_of

_log = logging.getLogger(__name__)

_ANONYMOUS = "User:ANONYMOUS"
_NAME_CHARACTERS = 260  # a topic's name has 249
_TEXT_CHARACTERS = 300


class RefusedRequests:
    """Logs refusals, and counts those that it leaves out because a like one was just logged. All
    that it hears of go to `count`, by API key and code.
    """

    __slots__ = ("_clock", "_config", "_keep", "_lines", "_of_topic", "count")

    def __init__(
        self,
        clock: Clock,
        config: Callable[[], KafkaConfig],
        of_topic: Callable[[str], TopicConfig],
        keep: Note = nobody_notes,
    ) -> None:
        """`config` and `of_topic` give the settings of now, `keep` hears of refused appends."""
        self._clock = clock
        self._config = config
        self._of_topic = of_topic
        self._keep = keep
        self._lines = RareLines()
        self.count: Callable[[int, int], None] = lambda _key, _code: None

    def tell(
        self, header: RequestHeader, connection: ConnectionInfo, request: Message, answer: Message
    ) -> None:
        """Log what an answer refuses."""
        name = name_in(request)
        self.tell_entries(header, connection, refused_entries(answer, name), name)

    def tell_entries(
        self,
        header: RequestHeader,
        connection: ConnectionInfo,
        entries: Iterable[Refused],
        name: str = "",
    ) -> None:
        """Log what was refused in an answer; `name` is what all of its request is about."""
        if connection.is_forwarded:
            return  # the broker that the client asked logs it
        for refused in entries:
            self.count(header.api_key, refused.code)
            if is_told(header.api_key, refused.code) and not _only_looks(
                header, connection, refused.code
            ):
                self._tell(header, connection, refused, name)

    def tell_whole(
        self,
        header: RequestHeader,
        connection: ConnectionInfo,
        request: Message,
        refusal: tuple[ErrorCode, str | None],
    ) -> None:
        """Log that all of a request is refused, with this code and text."""
        code, text = refusal
        name = name_in(request)
        self.tell_entries(header, connection, [Refused(name, name, code, text)], name)

    def _tell(
        self, header: RequestHeader, connection: ConnectionInfo, refused: Refused, name: str
    ) -> None:
        kind = (header.api_key, refused.code)
        left_out = self._lines.left_out(
            kind, refused.topic[:_NAME_CHARACTERS], self._clock.monotonic_ms()
        )
        if left_out is None:
            return
        line = self._line(header, connection, refused, name) + note_of(left_out)
        client_id = header.client_id and cut(header.client_id)
        code, place, event = ErrorCode(refused.code).name, _partition_in(refused), "request_refused"
        if header.api_key == ApiKey.PRODUCE and place is not None:
            event = "append_refused"
            self._keep_append(place, code, line, client_id)
        fields = fields_of(
            event,
            client_id=client_id,
            api=ApiKey(header.api_key).api_name,
            version=header.api_version,
            topic=place.topic if place is not None else None,
            partition=place.partition if place is not None else None,
            code=code,
        )
        _log.info("%s", line, extra=fields)

    def _keep_append(
        self, place: TopicPartition, code: str, line: str, client_id: str | None
    ) -> None:
        from kbroker.events.partition_events import AppendRefused  # hardly ever needed

        self._keep(AppendRefused(topic_partition=place, code=code, text=line, client_id=client_id))

    def _line(
        self, header: RequestHeader, connection: ConnectionInfo, refused: Refused, name: str
    ) -> str:
        client = shown_client(
            connection, header.client_id, f"{connection.peer_host}:{connection.peer_port}"
        )
        if connection.principal != _ANONYMOUS:
            client += f" as {_escaped(connection.principal, _NAME_CHARACTERS)}"
        what = f" of {_escaped(refused.what, _NAME_CHARACTERS)}" if refused.what else ""
        by = f" for {_escaped(name, _NAME_CHARACTERS)}" if name and name != refused.what else ""
        text = f": {_printable(refused.message)}" if refused.message else ""
        api, code = ApiKey(header.api_key).api_name, ErrorCode(refused.code).name
        decided = self._decided(header.api_key, refused)
        return f"{api}{what}{by} was refused to {client}: {code}{text}{decided}"

    def _decided(self, api_key: int, refused: Refused) -> str:
        settings = [
            self._with_value(name, refused) for name in deciding_settings(api_key, refused.code)
        ]
        return f" ({', '.join(settings)})" if settings else ""

    def _with_value(self, name: str, refused: Refused) -> str:
        topic_key = topic_config_key(name)
        if topic_key is not None:
            value: Any = getattr(self._of_topic(refused.topic), topic_key.attribute)
        elif config_key(name) is not None:
            value = self._config().value(name)
        else:
            return f"the client's {name}"
        if name == "auto.create.topics.enable" and value:
            return "the client asked not to create it"
        return f"{name}={to_text(value)}"


def _only_looks(header: RequestHeader, connection: ConnectionInfo, code: int) -> bool:
    """Whether a command of ours looks for a topic: most go on without it, and the others say so."""
    return (
        header.api_key == ApiKey.METADATA
        and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and connection.client_software_name == OWN_SOFTWARE
    )


_TELL_THEMSELVES = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.HEARTBEAT})


def told(
    api_key: int, answer_class: type[Message], handler: Callable[..., Any]
) -> Callable[..., Any]:
    """Return the handler of an API that clients ask, with its refusals logged."""
    if api_key in _TELL_THEMSELVES:
        return handler
    look = look_for_codes(answer_class)

    def tell(answer: Any, ctx: Any, request: Message) -> Any:
        if not isinstance(answer, NoResponse) and look(answer):
            ctx.tell_refusals(request, answer)
        return answer

    def handle(ctx: Any, request: Message) -> Any:
        answer = handler(ctx, request)
        if type(answer) is answer_class:
            return tell(answer, ctx, request)
        return then(answer, tell, ctx, request)

    return handle


def _partition_in(refused: Refused) -> TopicPartition | None:
    number = refused.what.removeprefix(f"{refused.topic}-")
    if not number.isdecimal() or not refused.topic or number == refused.what:
        return None
    return TopicPartition(refused.topic[:_NAME_CHARACTERS], int(number))


def _printable(text: str) -> str:
    return "".join(
        char if char.isprintable() else repr(char)[1:-1] for char in text[:_TEXT_CHARACTERS]
    )


def _escaped(text: str, most: int) -> str:
    return repr(text[:most])
