"""EventRecorder: logs events at info, and keeps the last ones.

Law: `LINES_EACH` lines for each kind and cause in a minute; those beyond it are counted in the next
line, so that a log is bounded whatever clients do. The history has them all the same. A sentence is
put together only for a log that takes it.

Owned by the event loop.
"""

from __future__ import annotations

import logging

from kbroker.clock import Clock
from kbroker.events.event import Event
from kbroker.events.history import EventHistory, Noted
from kbroker.line_fields import fields_of
from kbroker.model import TopicPartition
from kbroker.rare_lines import RareLines, note_of

GROUPS, PARTITIONS, PRODUCERS = (
    f"kbroker.events.{kind}" for kind in ("groups", "partitions", "producers")
)
"""The names of the logs of events, by what these are about."""

LINES_EACH = 200
_of_groups, _of_partitions, _of_producers = map(logging.getLogger, (GROUPS, PARTITIONS, PRODUCERS))


class EventRecorder:
    """The events of one broker."""

    __slots__ = ("_clock", "_history", "_lines")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._history = EventHistory()
        self._lines = RareLines(LINES_EACH)

    def note(self, event: Event) -> None:
        """Log an event that happens now, and keep it for a while."""
        self.keep(event)
        log = _of_groups if event.group is not None else _of_producers
        if event.topic_partition is not None:
            log = _of_partitions
        if not log.isEnabledFor(logging.INFO):
            return
        kind, now_ms = (event.name, event.cause), self._clock.monotonic_ms()
        if not self._lines.may_be_written(kind, now_ms):  # of thousands in a turn of the loop
            return
        sentence = event.sentence()
        left_out = self._lines.left_out(kind, sentence, now_ms)
        if left_out is not None:
            fields = fields_of(event.name, cause=event.cause, **event.fields())
            log.info("%s%s", sentence, note_of(left_out), extra=fields)

    def keep(self, event: Event) -> None:
        """Keep an event that another line of the log reports."""
        self._history.add(event, self._clock.now_ms())

    def of_group(self, group_id: str) -> list[Noted]:
        """Return the last events of a group, the oldest first."""
        return self._history.of_group(group_id, self._clock.now_ms())

    def of_partition(self, topic_partition: TopicPartition) -> list[Noted]:
        """Return the last events of a partition, the oldest first."""
        return self._history.of_partition(topic_partition, self._clock.now_ms())

    def of(self, subject: str | TopicPartition | None) -> list[Noted]:
        """Return the last events of a group (its id), of a partition, or of all (None)."""
        if subject is None:
            return self.recent()
        return self.of_group(subject) if isinstance(subject, str) else self.of_partition(subject)

    def recent(self, most: int = 100) -> list[Noted]:
        """Return the last events of all that are kept, at most `most`, the oldest first."""
        return self._history.recent(self._clock.now_ms(), most)
