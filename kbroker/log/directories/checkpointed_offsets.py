"""What a checkpoint file of a data directory says of its logs, or is about to say: where they
start, or up to where they are on the disk.

Law: no log is cut below an offset that such a file names, or that is on its way to it: the file is
brought down first, durably. Else, after a power loss, what is written after the cut would pass for
safe, and a start beyond the end, which nobody trusts, would show deleted records again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock

from kbroker.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointedOffsets:
    """Those of one file. What is gathered on the event loop is written in the background, in that
    order; what is lowered, at once.
    """

    def __init__(self, write: Callable[[Offsets], None]) -> None:
        """`write` replaces the file; it may raise StorageError."""
        self._write = write
        self._lock = Lock()  # over what is known; never held while the disk works
        self._write_lock = Lock()
        self._in_file: Offsets = {}
        self._highest: dict[TopicPartition, int] = {}  # in the file, or on the way to it
        self._gathered = 0
        # (how much was gathered until then, what is true since): logs that were cut
        self._replaced: dict[TopicPartition, tuple[int, int]] = {}

    def found(self, offsets: Offsets) -> None:
        """Take over the offsets of the file when the directory is opened."""
        self._in_file = dict(offsets)
        self._highest = dict(offsets)

    def gather(self, offsets: Offsets) -> Callable[[], None]:
        """Return a function that writes these offsets, whole; it raises StorageError."""
        with self._lock:
            self._gathered += 1
            for topic_partition, offset in offsets.items():
                self._highest[topic_partition] = max(offset, self._highest.get(topic_partition, 0))
            return partial(self._write_gathered, self._gathered, offsets)

    def in_file(self, topic_partition: TopicPartition) -> int:
        """Return the file's offset for a log; 0 where it has none."""
        return self._in_file.get(topic_partition, 0)

    def lower(self, topic_partition: TopicPartition, end_offset: int, offset: int) -> None:
        """A log is about to be cut to `end_offset`; `offset` is to be noted then. StorageError."""
        with self._lock:
            is_above = self._highest.get(topic_partition, 0) > end_offset
        if is_above:
            self.note(topic_partition, offset)

    def note(self, topic_partition: TopicPartition, offset: int) -> None:
        """Write `offset` down, whatever is on its way to the file. Raises StorageError."""
        with self._write_lock:
            with self._lock:
                self._replaced[topic_partition] = self._gathered, offset
            offsets = {**self._in_file, topic_partition: offset}
            self._write(offsets)
            with self._lock:  # not before: a cut that is tried again has to come here again
                self._in_file = offsets
                self._highest[topic_partition] = offset

    def _write_gathered(self, number: int, offsets: Offsets) -> None:
        with self._write_lock:
            with self._lock:
                later = {tp: new for tp, (last, new) in self._replaced.items() if number <= last}
            offsets = {**offsets, **later}
            self._write(offsets)
            with self._lock:
                self._in_file = offsets
                self._replaced = {tp: self._replaced[tp] for tp in later}
                if number == self._gathered:  # nothing else is on its way
                    self._highest = dict(offsets)
