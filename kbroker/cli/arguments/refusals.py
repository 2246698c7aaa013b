"""Sentences of commands about unknown names, and about single items that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.shown.output import counted, named, say
from kbroker.errors import Trouble
from kbroker.model import TopicPartition
from kbroker.near_names import did_you_mean


def shown(name: str) -> str:
    """A name for a sentence, in quotes where one would not see it."""
    return name if name and name == name.strip() and name.isprintable() else repr(name)


def no_such(kind: str, name: str, known: Iterable[str], command: str | None = None) -> str:
    """The sentence about a topic or group that is not there, with those that sound like it;
    `command` lists them where it is not named as they are.
    """
    hint = did_you_mean(name, known) or f" (see `kbroker {command or kind} list`)"
    return f"no such {kind}: {shown(name)}{hint}"


def no_such_broker(broker: int, online: Iterable[int], offline: Collection[int] = ()) -> str:
    """The sentence about a broker that is not there, with those that are; `offline`: also fine, as
    they hold replicas.
    """
    there = f"online: {brokers_named(online)}"
    if offline:
        there += f"; offline: {brokers_named(offline)}"
    return f"no such broker: {broker} ({there})"


def brokers_named(brokers: Iterable[int]) -> str:
    """Ids in brackets of a sentence. A bare `0` would read as none."""
    ids = sorted(brokers)
    return f"{'broker' if len(ids) == 1 else 'brokers'} {named(ids)}" if ids else "none"


def no_such_partition(place: TopicPartition, count: int) -> str:
    """The sentence about a partition that a topic of so many does not have."""
    return f"no such partition: {place} (the topic has {counted(count, 'partition')})"


def refuse(failures: Sequence[str], trouble: Trouble | None = None) -> None:
    """End with one `Error:` line per failure, where more is said of them, and exit code 1; nothing
    if there is none.
    """
    if not failures:
        return
    *others, last = failures
    for failure in others:
        say(f"Error: {failure}")
    raise CommandError(last, ExitCode.ITEM_FAILED, trouble)
