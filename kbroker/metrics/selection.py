"""The samples that a page of metrics shows: of topics that are asked for by name, and of no more
partitions than its limit.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kbroker.counters import Kind, Metric, MetricName, Sample, Table

_TOPIC, _PARTITION = "topic", "partition"
_ANY_REST = "*"
_LEFT_OUT = Table(
    (Metric(MetricName("kbroker.metrics", "Page", "PartitionsLeftOut"), Kind.GAUGE),),
    (),
    lambda: iter(()),
)


class Selection:
    """The topics and partitions of one page.

    `topics` are names, or beginnings of names that end in an asterisk; none means all. Of each
    table, `partitions` rows are shown at most, the first ones; the page says how many are left out.
    """

    def __init__(self, topics: Iterable[str] = (), partitions: int = -1) -> None:
        """`partitions` is -1 for all."""
        asked = list(topics)
        self._names = frozenset(name for name in asked if not name.endswith(_ANY_REST))
        self._beginnings = tuple(name[:-1] for name in asked if name.endswith(_ANY_REST))
        self._asks = bool(asked)
        self._partitions = partitions
        self._left_out = 0

    def of(self, samples: Iterable[Sample | None]) -> Iterator[Sample]:
        """Yield the samples that are shown."""
        table: Table | None = None
        topic_at, is_limited, rows = -1, False, 0
        for sample in samples:
            if sample is None:
                continue
            if sample[0] is not table:
                table, rows = sample[0], 0
                topic_at = table.tags.index(_TOPIC) if _TOPIC in table.tags else -1
                is_limited = self._partitions >= 0 and _PARTITION in table.tags
            if self._asks and topic_at >= 0 and not self._is_asked_for(sample[1][topic_at]):
                continue
            if is_limited:
                rows += 1
                if rows > self._partitions:
                    self._left_out = max(self._left_out, rows - self._partitions)
                    continue
            yield sample
        yield _LEFT_OUT, (), (self._left_out,)

    def _is_asked_for(self, topic: str) -> bool:
        return topic in self._names or topic.startswith(self._beginnings)
