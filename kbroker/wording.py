"""Numbers, names and times in sentences. Pure."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterable
from uuid import UUID


def counted(number: int, noun: str) -> str:
    """`1 batch`, `2,000 batches`."""
    ending = "es" if noun.endswith("ch") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def named(items: Iterable[object], most: int = 10) -> str:
    """`a, b, c and 4 more`: as many as a line can hold."""
    names = list(map(str, items))
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def duration_text(seconds: float) -> str:
    """`12 s`, `3 min` or `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def shown(name: str) -> str:
    """A name for a sentence, in quotes where one would not see it."""
    return name if name and name == name.strip() and name.isprintable() else repr(name)


def uuid_text(value: UUID) -> str:
    """Return an id of a topic as Kafka writes it: URL-safe base64 without padding.

    >>> uuid_text(UUID("62d3160d-da9c-4cb9-a3fa-c1d1c3471e1c"))
    'YtMWDdqcTLmj-sHRw0ceHA'
    """
    return urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def unnamed_topic(topic_id: UUID) -> str:
    """Return the words for a topic that was asked for by an id, of which the name is not known.

    >>> unnamed_topic(UUID("62d3160d-da9c-4cb9-a3fa-c1d1c3471e1c"))
    'unknown topic id YtMWDdqcTLmj-sHRw0ceHA'
    """
    return f"unknown topic id {uuid_text(topic_id)}"
