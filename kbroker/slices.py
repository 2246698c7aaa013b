"""Long lists in pieces, one for each turn of the event loop (see `turns`)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def slices(entries: Iterable[T], size: int) -> Iterator[list[T]]:
    """The entries, `size` at a time.

    >>> list(slices([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    rest = iter(entries)
    while some := list(islice(rest, size)):
        yield some


def slices_of_topics(topics: Iterable[T], array: str, size: int) -> Iterator[list[T]]:
    """Some topics at a time, which have about `size` partitions together, or are as many. `array`
    is the name of their partitions: a topic of many comes again, with others of them.
    """
    some: list[T] = []
    count = 0
    for topic in topics:
        for part in _parts(topic, array, size):
            some.append(part)
            count += 1 + len(getattr(part, array))
            if count >= size:
                yield some
                some, count = [], 0
    if some:
        yield some


def _parts(topic: T, array: str, size: int) -> Iterator[T]:
    partitions = getattr(topic, array)
    if len(partitions) <= size:
        yield topic
        return
    for some in slices(partitions, size):
        part = copy.copy(topic)
        setattr(part, array, some)
        yield part
