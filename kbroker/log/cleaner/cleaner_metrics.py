"""Counters and measures of compaction. Owned by the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbroker.counters import Counter, CounterRegistry, Kind, Metric, MetricName, Row, Table
from kbroker.log.cleaner.cleaning_job import CleaningDone


class CleanerMetrics:
    """The counters of one LogCleaner, and what its last cleaning came to."""

    def __init__(self) -> None:
        self._cleanings = Counter()
        self._bytes_read = Counter()
        self._bytes_written = Counter()
        self._recopied_percent = 0
        self._elapsed_s = 0.0

    def cleaned(self, end: CleaningDone) -> None:
        """Count a log that was cleaned."""
        stats = end.stats
        self._cleanings.value += 1
        self._bytes_read.value += stats.bytes_read
        self._bytes_written.value += stats.bytes_written
        self._recopied_percent = 100 * stats.bytes_written // max(1, stats.bytes_read)
        self._elapsed_s = end.elapsed_s

    def register(self, counters: CounterRegistry, uncleanable: Callable[[], Iterator[Row]]) -> None:
        """Register all of these under their names; `uncleanable` walks through data directories:
        how many of their logs are left as they are, and of how many bytes.
        """
        kind = "kafka.log", "LogCleaner"
        counters.add(MetricName(*kind, "cleaner-recopy-percent"), lambda: self._recopied_percent)
        counters.add(MetricName(*kind, "max-clean-time-secs"), lambda: self._elapsed_s)
        left = MetricName("kafka.log", "LogCleanerManager", "uncleanable-partitions-count")
        metrics = tuple(
            Metric(name, Kind.GAUGE) for name in (left, left._replace(name="uncleanable-bytes"))
        )
        counters.add_table(Table(metrics, ("logDirectory",), uncleanable))
        ours = "kbroker.log", "LogCleaner"
        counters.add(MetricName(*ours, "CleanedLogs"), self._cleanings)
        counters.add(MetricName(*ours, "BytesRead"), self._bytes_read)
        counters.add(MetricName(*ours, "BytesWritten"), self._bytes_written)
