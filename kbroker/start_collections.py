"""Garbage collection while a command, and above all a broker, starts.

Law: nearly everything that a start makes stays: modules, classes, functions, the broker's parts.
The usual collections among them take 15 ms of CPU, again and again for the same objects. So there
is one, in the midst of a broker's imports: it finds mostly the first halves of classes with slots,
a tenth of a megabyte that the rest of the imports uses again. A second one would find nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A start without a topic makes 75,000 objects that the collector counts: one collection.
_OBJECTS_EACH = 45_000
_USUAL = gc.get_threshold()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect every 45,000 new objects until this ends or `started` is called."""
    gc.set_threshold(_OBJECTS_EACH, *_USUAL[1:])
    try:
        yield
    finally:
        collect_as_usual()


def collect_as_usual() -> None:
    """Collect as often as the interpreter does by itself."""
    gc.set_threshold(*_USUAL)


def started() -> None:
    """Exclude all that exists from collections, which go on as usual: with it, a full one would
    hold the loop for 25 ms without a topic, and 130 ms with 5,000 partitions.
    """
    gc.freeze()
    collect_as_usual()
