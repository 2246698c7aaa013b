"""FairQueue: what waits, by who asked for it; askers take turns, one thing each. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")


class FairQueue(Generic[ThingT]):
    """Holds things so that whoever asks a thousand times delays another by one turn.

    >>> queue = FairQueue[int]()
    >>> for asker, number in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
    ...     queue.put(asker, number)
    >>> [queue.take() for _ in range(4)], bool(queue)
    ([1, 4, 2, 3], False)
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[ThingT]] = OrderedDict()  # whose turn it is first

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, asker: str, thing: ThingT) -> None:
        """Add a thing behind those of the same asker."""
        self._waiting.setdefault(asker, deque()).append(thing)

    def remove(self, asker: str, thing: ThingT) -> None:
        """Remove a thing that was put here, if it has not been taken."""
        things = self._waiting.get(asker)
        if things is None or thing not in things:
            return
        things.remove(thing)
        if not things:
            del self._waiting[asker]

    def take(self) -> ThingT:
        """Remove the oldest thing of the asker who has waited longest. Raises KeyError if there is
        none.
        """
        asker, things = self._waiting.popitem(last=False)
        thing = things.popleft()
        if things:
            self._waiting[asker] = things
        return thing
