"""The collector of cycles while a broker starts.

Law: what a start makes stays, nearly all of it: modules, classes and functions, and the parts of
the broker. To look for garbage among them as usual takes 15 ms of CPU, again and again at the same
objects. So a start is looked at once, in the midst of its imports: what that finds, mostly the
first halves of classes with slots, is a tenth of a megabyte that the rest of them uses again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# A start without a topic makes 45,000 objects that the collector counts: one look at them.
_OBJECTS_PER_LOOK = 30_000
_USUAL = gc.get_threshold()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Until this ends, or `started` is called, collect after 30,000 new objects."""
    gc.set_threshold(_OBJECTS_PER_LOOK, *_USUAL[1:])
    try:
        yield
    finally:
        gc.set_threshold(*_USUAL)


def started() -> None:
    """Leave what there is alone for good, and collect as usual from now on: a full collection that
    looked at it would hold the loop for 25 ms without a topic, and 130 ms with 5,000 partitions.
    """
    gc.freeze()
    gc.set_threshold(*_USUAL)
