"""What `log-start-offset-checkpoint` says of the logs of a data directory, or is about to say.

Law: no log is cut below a start that the file names, or that is on its way to it: the file is
brought down first, durably. A log that is opened and ends before its noted start is not emptied for
a number alone, so a power loss after such a cut would show what DeleteRecords had deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock

from kbroker.model import TopicPartition

Starts = Mapping[TopicPartition, int]


class NotedStarts:
    """Those of one data directory. What is gathered on the event loop is written behind it, in that
    order; what is lowered, at once.
    """

    def __init__(self, write: Callable[[Starts], None]) -> None:
        """`write` replaces the file; it may raise StorageError."""
        self._write = write
        self._lock = Lock()
        self._in_file: Starts = {}
        self._highest: dict[TopicPartition, int] = {}  # in the file, or on the way to it
        self._gathered = 0
        # (what was gathered until then, start): logs that were cut
        self._lowered: dict[TopicPartition, tuple[int, int]] = {}

    def found(self, starts: Starts) -> None:
        """What the file says when the directory is opened."""
        self._in_file = dict(starts)
        self._highest = dict(starts)

    def gather(self, starts: Starts) -> Callable[[], None]:
        """What brings them into the file, whole; it raises StorageError."""
        with self._lock:
            self._gathered += 1
            for topic_partition, offset in starts.items():
                self._highest[topic_partition] = max(offset, self._highest.get(topic_partition, 0))
            return partial(self._write_gathered, self._gathered, starts)

    def in_file(self, topic_partition: TopicPartition) -> int:
        """Where the file says that a log starts; 0 where it says nothing."""
        return self._in_file.get(topic_partition, 0)

    def lower(self, topic_partition: TopicPartition, end_offset: int, start_offset: int) -> None:
        """A log is about to be cut to `end_offset`, and starts at `start_offset` then. Raises
        StorageError.
        """
        if self._highest.get(topic_partition, 0) <= end_offset:
            return
        with self._lock:
            self._lowered[topic_partition] = self._gathered, start_offset
            if self.in_file(topic_partition) > end_offset:
                starts = {**self._in_file, topic_partition: start_offset}
                self._write(starts)
                self._in_file = starts
            self._highest[topic_partition] = start_offset

    def _write_gathered(self, number: int, starts: Starts) -> None:
        with self._lock:
            earlier = {tp: start for tp, (last, start) in self._lowered.items() if number <= last}
            starts = {tp: min(start, earlier.get(tp, start)) for tp, start in starts.items()}
            self._write(starts)
            self._in_file = starts
            self._lowered = {tp: self._lowered[tp] for tp in earlier}
            if number == self._gathered:  # nothing else is on its way
                self._highest = dict(starts)
