"""FrozenState: what a long load builds, kept out of Python's collections of garbage.

Law: a full collection looks at all that is alive, and holds the event loop for 200 ms if a
coordinator keeps 200,000 transactional ids. There are many collections while the ids are read, and
none finds anything. What is kept out is still freed once nothing refers to it, unless it refers to
itself: so all is given back when a partition is dropped.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from kbroker.model import TopicPartition

_STEPS = 1000  # of a load, after which what they have built is kept out


class FrozenState:
    """Owned by the event loop."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()

    def kept_out(self, partition: TopicPartition, steps: Iterator[None]) -> Iterator[None]:
        """The steps that load a partition. One that takes few of them is looked at as all else."""
        for number, _ in enumerate(steps, 1):
            if number % _STEPS == 0:
                gc.freeze()
                self._partitions.add(partition)
            yield

    def let_go(self, partition: TopicPartition) -> None:
        """Nobody uses what was built for a partition any more."""
        if partition in self._partitions:
            self._partitions.remove(partition)
            gc.unfreeze()
