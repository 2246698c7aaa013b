"""Searches of messages as the query of an address names them, and back. Screens and the API take
the same fields. Pure, but for the time that relative moments begin from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kbroker.client.record_places import PLACES, Place, place_named
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.message_filter import message_filter
from kbroker.console.messages import MOST_ROWS, MessageSearch
from kbroker.console.shown_values import AUTO, check_choice
from kbroker.console.web.web_request import Fields, RefusedError

FIRST_FROM: Final = "-50"
_LAST_TO: Final = "end"
_MOST_PARTITIONS: Final = 1_000
_FILTERS: Final = ("text", "key", "header", "json")
LOOKS: Final = ("partitions", *_FILTERS, "key_decoder", "value_decoder", "uncommitted")
"""The fields that say which messages are shown and how, whatever the place."""


def search_of(topic: str, query: Fields) -> MessageSearch:
    """Return the search that a query names. Raises RefusedError with a sentence."""
    try:
        wanted = message_filter(
            query.exact("text"), query.exact("key"), query.exact("header"), query.text("json")
        )
        key_decoder, value_decoder = (_decoder(query, name) for name in ("key", "value"))
    except ValueError as error:
        raise RefusedError(400, str(error)) from error
    return MessageSearch(
        topic=topic,
        start=_place(query.text("from", FIRST_FROM), "from"),
        end=_place(query.text("to", _LAST_TO), "to"),
        starts=offsets_in(query.text("starts")),
        partitions=partitions_in(query.text("partitions")),
        wanted=wanted,
        key_decoder=key_decoder,
        value_decoder=value_decoder,
        rows=min(max(query.number("rows", 50), 1), MOST_ROWS),
        only_committed=not query.flag("uncommitted"),
    )


def _decoder(query: Fields, name: str) -> str:
    decoder = query.text(f"{name}_decoder", AUTO)
    check_choice(decoder)
    return decoder


def has_filter(query: Fields) -> bool:
    """Whether a query leaves out messages by what is in them."""
    return any(query.exact(name) for name in _FILTERS)


def offsets_in(text: str) -> dict[int, int]:
    """Return offsets by partition. Raises RefusedError with a sentence.

    >>> offsets_in("0:12,1:30")
    {0: 12, 1: 30}
    """
    found = {}
    for each in _listed(text):
        partition, _, offset = each.partition(":")
        found[_number(partition, text)] = _number(offset, text)
    return found


def offsets_text(offsets: Mapping[int, int]) -> str:
    """Return what `offsets_in` reads."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


def partitions_in(text: str) -> frozenset[int]:
    """Return partitions that are listed with commas. Raises RefusedError with a sentence."""
    return frozenset(_number(each, text) for each in _listed(text))


def _listed(text: str) -> list[str]:
    listed = text.replace(",", " ").split()
    if len(listed) > _MOST_PARTITIONS:
        raise RefusedError(400, f"more than {_MOST_PARTITIONS:,} partitions are named")
    return listed


def _number(text: str, within: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19:
        raise RefusedError(400, f"{within[:100]!r} names no partitions: give 0,3 or 0:120,3:50")
    return int(text)


def _place(text: str, name: str) -> Place:
    place = place_named(text, unix_now_ms()) if len(text) <= 40 else None
    if place is None:
        raise RefusedError(400, f"{name}: {text[:100]!r} is none of: {PLACES}")
    return place
