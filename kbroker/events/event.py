"""The form that all events have, and how names that clients chose are shown in their sentences.

Pure. Law: a sentence is one line of bounded length, whatever clients send: their names stand in
quotes, with control characters escaped, and are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kbroker.model import TopicPartition

SHOWN_CHARACTERS = 200  # of a name or a reason that a client sent; a topic's name has 249
Fields = Mapping[str, str | int]
"""Names and values for programs that read a log; what is unknown is absent."""


class Event(Protocol):
    """Something that happened, as a value that says nothing of time."""

    @property
    def name(self) -> str:
        """The kind of event, for programs, such as `rebalance`."""
        ...

    @property
    def cause(self) -> str:
        """The kind of cause, for programs, such as `new_member`."""
        ...

    @property
    def group(self) -> str | None:
        """The group that it happened to, None if it is about something else."""
        ...

    @property
    def topic_partition(self) -> TopicPartition | None:
        """The partition that it happened to, None if it is about something else."""
        ...

    def sentence(self) -> str:
        """Say for a person what happened, and why."""
        ...

    def fields(self) -> Fields:
        """Say the same for a program, without name and cause."""
        ...


Note = Callable[[Event], None]
"""Called with an event as it happens."""


def nobody_notes(_event: Event) -> None:
    """Let an event pass: nobody asks."""


def quoted(text: str) -> str:
    r"""Return a client's text so that it can do no harm in a line: in quotes, escaped and cut.

    >>> print(quoted("a\x1b[2J\nb"))
    'a\x1b[2J\nb'
    """
    return repr(cut(text))


def cut(text: str) -> str:
    """Return the beginning of a text, which an event may keep."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def known(**fields: str | int | None) -> Fields:
    """Return those of the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def of_partition(topic_partition: TopicPartition | None) -> Fields:
    """Return the fields that name a partition."""
    if topic_partition is None:
        return {}
    return {"topic": topic_partition.topic, "partition": topic_partition.partition}
