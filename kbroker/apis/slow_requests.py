"""Logs requests whose answer took long (`kbroker.slow.request.ms`), with what they asked for.

What a client waits for by its own wish is not slow: a Fetch may take its `max_wait_ms` longer, and
members of a group that join wait for the others. Of each API there are so many lines in a minute,
see `rare_lines`.

Owned by the event loop.
"""

from __future__ import annotations

import logging
from typing import Final

from kbroker.apis.asked_names import AskedNames, TopicName
from kbroker.apis.request_tracer import asker_of
from kbroker.clock import Clock
from kbroker.errors import ProtocolError
from kbroker.line_fields import fields_of
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decoder_of
from kbroker.protocol.request import Request, shown_client
from kbroker.protocol.schema import Message, request_class
from kbroker.rare_lines import RareLines, note_of

_log = logging.getLogger(__name__)

LINES_EACH: Final = 100
_NS_PER_MS: Final = 1_000_000
_DECODED_BYTES_MAX: Final = 64 * 1024  # of a request whose message is gone
_WAIT_FOR_OTHERS: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


class SlowRequests:
    """Tells the log of requests that took longer than a limit."""

    __slots__ = ("_clock", "_lines", "_topic_name", "slow_ns")

    def __init__(self, clock: Clock, slow_ms: float, topic_name: TopicName) -> None:
        """`topic_name` says which topic has an id."""
        self.slow_ns = int(slow_ms * _NS_PER_MS)
        self._clock = clock
        self._lines = RareLines(LINES_EACH)
        self._topic_name = topic_name

    def tell(self, request: Request, took_ns: int, message: Message | None = None) -> None:
        """Log a request that took so long; without its message it is decoded again."""
        key = request.header.api_key
        if key in _WAIT_FOR_OTHERS:
            return
        if message is None:
            message = _decoded(request)
        if key == ApiKey.FETCH:
            waited_ms: int = getattr(message, "max_wait_ms", 0)
            if took_ns <= self.slow_ns + max(waited_ms, 0) * _NS_PER_MS:
                return
        self._log(request, took_ns, message)

    def _log(self, request: Request, took_ns: int, message: Message | None) -> None:
        header, connection = request.header, request.connection
        names = AskedNames(self._topic_name)
        if message is not None:
            names.add(message)
        asked = names.asked_for()
        asker = asker_of(header.client_id, connection)
        api, took_ms = ApiKey(header.api_key).api_name, took_ns // _NS_PER_MS
        client = shown_client(connection, header.client_id, asker.address)
        about = f" of {asked.sentence()}" if asked.sentence() else ""
        line = f"{api}{about} took {took_ms:,} ms, for {client}"
        left_out = self._lines.left_out(api, line, self._clock.monotonic_ms())
        if left_out is None:
            return
        fields = fields_of(
            "slow_request",
            api=api,
            version=header.api_version,
            client_id=asker.client_id,
            address=asker.address,
            topic=asked.topics[0] if asked.topics else None,
            group=asked.groups[0] if asked.groups else None,
            took_ms=took_ms,
            request_bytes=request.size_bytes,
        )
        _log.warning("%s%s", line, note_of(left_out), extra=fields)


def _decoded(request: Request) -> Message | None:
    """The message of a request that was decoded before; None if that is gone, or large."""
    cls = request_class(request.header.api_key)
    if cls is None or not 0 < len(request.frame) <= _DECODED_BYTES_MAX:
        return None
    try:
        decode = decoder_of(cls, request.header.api_version, cls.max_elements)
        message: Message = decode(request.frame, request.body_offset)[0]
    except ProtocolError:  # it was refused for what stands in it
        return None
    return message
