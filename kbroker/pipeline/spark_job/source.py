"""The source of a job's records, as jobs see it.

Law: `earliest`, `latest` and `log_ends` are plain look-ups on the driver, so that a source out of
reach is reported before Spark starts; only `stream` and `batch` touch Spark. Both yield the columns
of `envelope.RECORD_COLUMNS`, and those of EXACT_COLUMNS if the source knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kbroker.pipeline.spark_job.offsets import Offsets, Ranges


class Source(Protocol):
    """Topics in a cluster or in directories. Frames are typed Any: no job waits for pyspark."""

    @property
    def needs_connector(self) -> bool:
        """Whether Spark's Kafka connector has to be there."""
        ...

    @property
    def bounds_itself(self) -> bool:
        """Whether Trigger.AvailableNow goes to a fixed end in batches of `max_records`."""
        ...

    @property
    def fails_on_data_loss(self) -> bool:
        """Whether a job ends if records were removed before it had read them."""
        ...

    def describe(self) -> str:
        """The identity, as a checkpoint stores it: the same text for the same source."""
        ...

    def topic_ids(self) -> Mapping[str, str]:
        """Ids of the topics by name, without topics that have none; raises PipelineError."""
        ...

    def earliest(self) -> Offsets:
        """The first offset of every partition; raises PipelineError."""
        ...

    def latest(self) -> Offsets:
        """The offset after the last readable record of every partition; raises PipelineError."""
        ...

    def log_ends(self) -> Offsets:
        """The offset after the last record of every partition, readable or not."""
        ...

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        """A streaming frame from `start` on, with at most `max_records` offsets per batch."""
        ...

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        """A frame of exactly these ranges."""
        ...
