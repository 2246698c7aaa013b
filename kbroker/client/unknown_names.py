"""Sentences about names that a cluster does not know, with what may have been meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.model import TopicPartition
from kbroker.near_names import did_you_mean
from kbroker.wording import counted, shown


def no_such(kind: str, name: str, known: Iterable[str], command: str | None = None) -> str:
    """Return the sentence about a topic or group that is not there, with similar names; `command`
    lists them if it is not named like their kind.
    """
    hint = did_you_mean(name, known) or f" (see `kbroker {command or kind} list`)"
    return f"no such {kind}: {shown(name)}{hint}"


def no_such_partition(place: TopicPartition, count: int) -> str:
    """Return the sentence about a partition that a topic with `count` of them does not have."""
    return f"no such partition: {place} (the topic has {counted(count, 'partition')})"
