"""The offsets in a checkpoint file of a data directory, and those on their way to it: where logs
start, or up to where they are on the disk.

Law: no log is cut below an offset that such a file names, or that is on its way to it: the file is
brought down first, durably. Else, after a power loss, what is written after the cut would pass for
safe, and a start beyond the end, which nobody trusts, would show deleted records again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Lock

from kbroker.log.disk.file_system import StorageError
from kbroker.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


class CheckpointedOffsets:
    """The offsets of one file: those gathered on the event loop are written in the background, in
    that order; one that is lowered, at once.
    """

    def __init__(self, write: Callable[[Offsets], None]) -> None:
        """`write` replaces the file; it may raise StorageError."""
        self._write = write
        self._lock = Lock()  # over what is known; never held while the disk works
        self._write_lock = Lock()
        self._in_file: Offsets = {}
        self._gathered = 0
        self._on_the_way: dict[int, Offsets] = {}  # to the file, by number; kept if that fails
        # (how much was gathered until then, what is true since): logs that were cut
        self._replaced: dict[TopicPartition, tuple[int, int]] = {}

    def found(self, offsets: Offsets) -> None:
        """Take over the offsets of the file when the directory is opened."""
        self._in_file = dict(offsets)

    def gather(self, offsets: Offsets) -> Callable[[], None]:
        """Return a function that writes these offsets, whole; it raises StorageError. They must
        not change any more.
        """
        with self._lock:
            self._gathered += 1
            self._on_the_way[self._gathered] = offsets
            return partial(self._write_gathered, self._gathered, offsets)

    @property
    def gathered(self) -> int:
        return self._gathered

    def noted_since(self, gathered: int) -> list[TopicPartition]:
        """The logs of which something was noted since so much was gathered."""
        with self._lock:
            return [tp for tp, (last, _) in self._replaced.items() if last >= gathered]

    def in_file(self, topic_partition: TopicPartition) -> int:
        return self._in_file.get(topic_partition, 0)

    def lower(self, topic_partition: TopicPartition, end_offset: int, offset: int) -> None:
        """A log is about to be cut to `end_offset`; `offset` is to be noted then. StorageError."""
        with self._lock:
            is_above = any(known > end_offset for known in self._known(topic_partition))
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

    def _write_gathered(self, number: int, offsets: Offsets) -> None:
        with self._write_lock:
            with self._lock:
                later = {tp: new for tp, (last, new) in self._replaced.items() if number <= last}
            offsets = {**offsets, **later}
            try:
                self._write(offsets)
            except StorageError:
                self._may_be_in_file(number)
                raise
            with self._lock:
                self._in_file = offsets
                self._replaced = {tp: self._replaced[tp] for tp in later}
                for earlier in [each for each in self._on_the_way if each <= number]:
                    del self._on_the_way[earlier]

    def _may_be_in_file(self, number: int) -> None:
        """A write has failed: all that failed until then is kept as one, by the highest offsets."""
        with self._lock:
            failed = self._on_the_way.get(number, {})
            for earlier in [each for each in self._on_the_way if each < number]:
                offsets = self._on_the_way.pop(earlier)
                failed = {**offsets, **{tp: max(o, offsets.get(tp, 0)) for tp, o in failed.items()}}
            self._on_the_way[number] = failed

    def _known(self, topic_partition: TopicPartition) -> Iterator[int]:
        """Offsets of a log in the file, and on the way to it."""
        yield self._in_file.get(topic_partition, 0)
        last, _ = self._replaced.get(topic_partition, (0, 0))
        for number, offsets in self._on_the_way.items():
            if number > last:
                yield offsets.get(topic_partition, 0)
