"""Sentences of commands about unknown brokers, and about single items that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.shown.output import say
from kbroker.errors import Trouble
from kbroker.wording import named


def no_such_broker(broker: int, online: Iterable[int], offline: Collection[int] = ()) -> str:
    """Return the sentence about a broker that is not there, with those that are; `offline`: those
    that hold replicas, and would be accepted too.
    """
    there = f"online: {brokers_named(online)}"
    if offline:
        there += f"; offline: {brokers_named(offline)}"
    return f"no such broker: {broker} ({there})"


def brokers_named(brokers: Iterable[int]) -> str:
    """Return broker ids for a sentence, named as such, because a bare `0` would read as none."""
    ids = sorted(brokers)
    return f"{'broker' if len(ids) == 1 else 'brokers'} {named(ids)}" if ids else "none"


def refuse(failures: Sequence[str], trouble: Trouble | None = None) -> None:
    """Raise CommandError with one `Error:` line per failure, and a pointer to more; do nothing
    without failures.
    """
    if not failures:
        return
    *others, last = failures
    for failure in others:
        say(f"Error: {failure}")
    raise CommandError(last, ExitCode.ITEM_FAILED, trouble)
