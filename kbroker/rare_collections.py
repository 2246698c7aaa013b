"""Rare collections of all garbage, while a request of very many entries is in work; none while very
many values are looked at that live for a moment.

Law: a full collection looks at every object that is alive: at 300,000 entries it holds the event
loop for 200 ms, again and again while they are made, and finds nothing. Young objects are collected
as ever; old ones after some millions of new objects, so that garbage does not pile up however long
the work takes.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_COLLECTIONS_OF_YOUNG = 1_000  # some millions of objects; usually 10
_works: list[int] = []  # for each piece of work, the usual threshold
_lock = threading.Lock()


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Until this ends, on any thread. What lives for so long would be taken for old objects, and a
    full collection would follow.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()


@contextmanager
def collecting_all_rarely() -> Iterator[None]:
    """Until this and all others have ended, on any thread."""
    with _lock:
        _works.append(_works[0] if _works else gc.get_threshold()[2])
        gc.set_threshold(*gc.get_threshold()[:2], _COLLECTIONS_OF_YOUNG)
    try:
        yield
    finally:
        with _lock:
            usual = _works.pop()
            if not _works:
                gc.set_threshold(*gc.get_threshold()[:2], usual)
