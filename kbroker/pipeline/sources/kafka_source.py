"""Topics of a running cluster, kbroker's or any other, read through Spark's Kafka connector.

The connector asks for both ends of a partition after every poll, so the number of records per poll
decides how often. Its fetch sizes are made for consumers that keep many partitions in memory; a
task reads one. A user's own options override all of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kbroker.client.bootstrap import Bootstrap
from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.topic_figures import all_offsets
from kbroker.errors import ErrorCode
from kbroker.model import INTERNAL_TOPICS, ZERO_UUID, TopicPartition
from kbroker.pipeline.cluster_errors import cluster_links
from kbroker.pipeline.envelope import RECORD_COLUMNS
from kbroker.pipeline.errors import PipelineError, with_hints
from kbroker.pipeline.sources.connector_security import settings_of_connector
from kbroker.pipeline.sources.connector_times import with_written_times
from kbroker.pipeline.spark_job.offsets import OffsetRange, Offsets, Ranges, format_offsets

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_NOT_THERE = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,  # left out, as when all topics are asked for
)
_CLIENT_OPTIONS = {
    "kafka.max.poll.records": "20000",  # two ListOffsets per poll: 500, the default, asks 40 x more
    # Half the broker's CPU time of the default, 1 MiB; with 8 MiB, sessions that have read for a
    # while take up to three times theirs.
    "kafka.max.partition.fetch.bytes": str(4 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """Either `topics` or a `pattern`, a regular expression for whole names."""

    bootstrap: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    isolation_level: str = READ_COMMITTED
    fails_on_data_loss: bool = True
    options: Mapping[str, str] = field(default_factory=dict)  # of the connector, such as kafka.*

    @property
    def needs_connector(self) -> bool:
        return True

    @property
    def bounds_itself(self) -> bool:
        """Trigger.AvailableNow takes `maxOffsetsPerTrigger` at a time."""
        return True

    def allowing_loss(self) -> KafkaSource:
        """Return a source that goes on if records were removed before they were read."""
        return replace(self, fails_on_data_loss=False)

    def of_topic(self, name: str) -> KafkaSource:
        """Return a source of one topic of the same cluster."""
        return replace(self, topics=(name,), pattern=None)

    def describe(self) -> str:
        """Name cluster and topics. One cluster may have many addresses, so a user who writes
        another one has to give a new checkpoint.
        """
        chosen = f"pattern {self.pattern}" if self.pattern else f"topics {','.join(self._names())}"
        return f"kafka {self.bootstrap} {chosen}"

    def chooses(self, topic: str) -> bool:
        """Return whether a topic of this name would be read if it existed."""
        if self.pattern is not None:
            return topic not in INTERNAL_TOPICS and bool(re.fullmatch(self.pattern, topic))
        return topic in self.topics

    def topic_ids(self) -> Mapping[str, str]:
        """Ask for topic ids; empty from brokers before Kafka 2.8."""
        with cluster_links(self.cluster) as links:
            views = self._chosen(links)
        return {view.name: str(view.topic_id) for view in views if view.topic_id != ZERO_UUID}

    def earliest(self) -> Offsets:
        """Ask for log start offsets."""
        return self._offsets(EARLIEST)

    def latest(self) -> Offsets:
        """Ask for last stable offsets if only committed records are read, else high watermarks."""
        return self._offsets(LATEST)

    def log_ends(self) -> Offsets:
        """Return `latest`: a cluster does not report records that cannot be read yet."""
        return self.latest()

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        """Read topics by name or pattern, so that added partitions are read too."""
        reader = spark.readStream.format("kafka").options(**self.connector_options())
        reader = reader.options(**self._subscription())
        reader = reader.option("startingOffsets", format_offsets(start))
        if max_records is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(max_records))
        return with_written_times(reader.load().select(*RECORD_COLUMNS))

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        """Read exactly these partitions and offsets."""
        reader = spark.read.format("kafka").options(**self.connector_options())
        starts = {partition: each.start for partition, each in ranges.items()}
        ends = {partition: each.end for partition, each in ranges.items()}
        reader = reader.option("assign", _assignment(ranges))
        reader = reader.option("startingOffsets", format_offsets(starts))
        reader = reader.option("endingOffsets", format_offsets(ends))
        return with_written_times(reader.load().select(*RECORD_COLUMNS))

    def exact_batch(self, spark: Any, ranges: Ranges) -> Any:
        """Read ranges like `batch`, but with EXACT_COLUMNS and by `exact_kafka_rows`."""
        from kbroker.pipeline.sources.exact_kafka_rows import ExactReading, exact_frame

        reading = ExactReading(
            bootstrap=self.cluster,
            only_committed=self.isolation_level == READ_COMMITTED,
            leaves_out=not self.fails_on_data_loss,
        )
        return exact_frame(spark, reading, ranges)

    @property
    def cluster(self) -> Bootstrap:
        """Return the same connection for the job's own look-ups; raises PipelineError."""
        return Bootstrap(self.bootstrap, settings_of_connector(self.options))

    def connector_options(self) -> dict[str, str]:
        """Return the connector's options besides topics and offsets."""
        return {
            **_CLIENT_OPTIONS,
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.isolation.level": self.isolation_level,
            "failOnDataLoss": "true" if self.fails_on_data_loss else "false",
            "includeHeaders": "true",
            **self.options,
        }

    def _subscription(self) -> dict[str, str]:
        if self.pattern is not None:
            return {"subscribePattern": f"^(?:{self.pattern})$"}
        return {"subscribe": ",".join(self._names())}

    def _names(self) -> list[str]:
        return sorted(set(self.topics))

    def _asked_for(self) -> list[str] | None:
        """Return the topics to describe; None, which means all, only if a pattern decides."""
        return None if self.pattern is not None else self._names()

    def _offsets(self, moment: int) -> Offsets:
        only_committed = self.isolation_level == READ_COMMITTED
        with cluster_links(self.cluster) as links:
            views = self._chosen(links)
            found = all_offsets(links, views, moment, only_committed=only_committed)
        return dict(sorted(found.items()))

    def _chosen(self, links: ClusterLinks) -> list[TopicView]:
        found = links.topics(self._asked_for())
        by_name = {view.name: view for view in found if view.code not in _NOT_THERE}
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            names = [
                name
                for name, view in by_name.items()
                if not view.is_internal and pattern.fullmatch(name)
            ]
            if not names:
                raise PipelineError(f"no topic at {self.bootstrap} matches {self.pattern}")
        else:
            names = self._names()
            missing = [name for name in names if name not in by_name]
            if missing:
                raise self._refused(links, missing)
        return [by_name[name] for name in sorted(names)]

    def _refused(self, links: ClusterLinks, missing: Iterable[str]) -> PipelineError:
        there = [view.name for view in links.topics(None)]
        names = with_hints(missing, there)
        end = "" if names.endswith("?") else "."
        return PipelineError(
            f"{self.bootstrap} has no topic {names}{end} `kbroker topic list` shows which there are"
        )


def _assignment(ranges: Mapping[TopicPartition, OffsetRange]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(ranges):
        by_topic.setdefault(topic, []).append(partition)
    return json.dumps(by_topic)
