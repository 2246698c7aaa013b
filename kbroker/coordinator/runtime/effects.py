"""Wishes of pure code to its shell: records to append, answers to send, timers to set,
events to note.

Pure. A machine never waits, reads a clock or touches a socket. It takes an input with the `Instant`
it happened at, changes its state and returns effects; the shell runs them in order and feeds their
outcome back as further inputs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kbroker.events.event import Event


class Instant(NamedTuple):
    """When an input happened, on both clocks."""

    wall_ms: int  # Unix time: what is written down
    monotonic_ms: float  # never goes back: deadlines


class KeyValue(NamedTuple):
    """A record of a compacted internal topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class RecordsToMake(NamedTuple):
    """Records that are made beside the loop, as that takes long: how many, and what makes them."""

    number: int
    make: Callable[[], Sequence[KeyValue]]


@dataclass(frozen=True, slots=True)
class Append:
    """Append records as one batch; the outcome comes back to the machine together with `token`. A
    refusal that nobody is answered with is logged.
    """

    records: tuple[KeyValue, ...] | RecordsToMake
    token: Hashable
    is_answered: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class TakePlace:
    """`successor` takes the place of the machine that asks for it, with the records of `append`,
    whose outcome it hears; `first` is what it asks for itself. The machine before it comes back if
    the log refuses the records.
    """

    successor: Any
    append: Append
    first: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request that came with `correlation`."""

    correlation: object
    response: object


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call back with `key` at `deadline_ms` (monotonic); replaces a timer of the same key."""

    key: Hashable
    deadline_ms: float


@dataclass(frozen=True, slots=True)
class CancelTimer:
    """Forget the timer of this key; fine when there is none."""

    key: Hashable


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """Call `work` beside the loop, as it takes long; what it returns comes back to the machine
    together with `token`, None if it raises. It touches nothing that the machine owns. `then`, if
    there is one, takes what it returns and works on the loop, with turns for others.
    """

    work: Callable[[], Any]
    token: Hashable
    then: Callable[[Any], Awaitable[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that people may ask for later, with its cause; it changes nothing."""

    event: Event


Effect = Append | TakePlace | Reply | SetTimer | CancelTimer | Compute | Happened
