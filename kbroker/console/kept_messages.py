"""KeptMessages: the messages that a search keeps for its answer, as a list shows them.

Law: no more than twice the wanted rows are kept, and of a large message only what is shown. Small
ones become rows at the end, because most of those of a busy topic are dropped before. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kbroker.console.message_form import MessageForm
from kbroker.console.shown_values import ShownValue, shown_value
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record

_HEADERS_SHOWN: Final = 50
_HEADER_BYTES: Final = 1_024  # of one value
_ALL_HEADERS_BYTES: Final = 16 * 1_024  # of the values of one message
_NAME_LETTERS: Final = 256
_SMALL_BYTES: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message; `timestamp_ms` is Unix time, None if it has none. Headers are pairs of name and
    value.
    """

    partition: int
    offset: int
    timestamp_ms: int | None
    key: ShownValue
    value: ShownValue
    headers: tuple[tuple[str, ShownValue], ...]


def message_row(place: TopicPartition, record: Record, form: MessageForm) -> MessageRow:
    """Return a message as a list shows it."""
    key, value = form.shown(record)
    return MessageRow(
        partition=place.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        key=key,
        value=value,
        headers=tuple(_headers(record)),
    )


def _headers(record: Record) -> Iterator[tuple[str, ShownValue]]:
    left = _ALL_HEADERS_BYTES
    for name, data in record.headers[:_HEADERS_SHOWN]:
        most_bytes = min(_HEADER_BYTES, left)
        yield _name(name), shown_value(data, most_bytes=most_bytes)
        left -= min(len(data or b""), most_bytes)


def _name(text: str) -> str:
    """Return the beginning of the name of a header, with bytes that are not UTF-8 as escapes."""
    if len(text) > _NAME_LETTERS:
        text = text[:_NAME_LETTERS] + "..."
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class _Kept(NamedTuple):
    timestamp: int
    place: TopicPartition
    offset: int
    message: Record | MessageRow


class KeptMessages:
    """Messages in the order of time: the first that come, or the newest."""

    def __init__(self, form: MessageForm, most_rows: int, *, keeps_newest: bool) -> None:
        self.fitting = 0  # messages that were added, also those that are not kept
        self._form = form
        self._most_rows = most_rows
        self._keeps_newest = keeps_newest
        self._kept: list[_Kept] = []

    @property
    def is_full(self) -> bool:
        """Whether no other message could be kept."""
        return not self._keeps_newest and len(self._kept) >= self._most_rows

    def add(self, place: TopicPartition, record: Record) -> None:
        """Keep a message, at least as long as there is none that is newer."""
        self.fitting += 1
        if size_of(record) <= _SMALL_BYTES:
            message: Record | MessageRow = record
        else:
            message = message_row(place, record, self._form)
        self._kept.append(_Kept(record.timestamp, place, record.offset, message))
        if len(self._kept) >= 2 * self._most_rows:
            self._drop()

    def rows(self) -> tuple[MessageRow, ...]:
        """Return what is kept, the oldest first."""
        self._drop()
        return tuple(
            each.message
            if isinstance(each.message, MessageRow)
            else message_row(each.place, each.message, self._form)
            for each in self._kept
        )

    def _drop(self) -> None:
        self._kept.sort(key=lambda each: each[:3])
        del self._kept[: -self._most_rows]


def size_of(record: Record) -> int:
    """Return the bytes of key, value and headers."""
    size_bytes = len(record.key or b"") + len(record.value or b"")
    for name, data in record.headers:
        size_bytes += len(name) + len(data or b"")
    return size_bytes
