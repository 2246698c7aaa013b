"""Where a job's records come from: what the frame asks of a source.

Law: `earliest`, `latest` and `log_ends` are plain look-ups on the driver, so that a source out of
reach is reported before Spark starts; only `stream` and `batch` touch Spark. Both yield the columns
of `envelope.RECORD_COLUMNS`, and of EXACT_COLUMNS where the source can tell them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kbroker.pipeline.spark_job.offsets import Offsets, Ranges


class Source(Protocol):
    """Topics somewhere. A `DataFrame` is named Any here, so that no job waits for pyspark."""

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
        """Whether a job ends where records were removed before it had read them."""
        ...

    def describe(self) -> str:
        """The identity, as a checkpoint remembers it: the same text for the same source."""
        ...

    def topic_ids(self) -> Mapping[str, str]:
        """Ids of the topics by name, without those that have none; raises PipelineError."""
        ...

    def earliest(self) -> Offsets:
        """The first offset of every partition; raises PipelineError."""
        ...

    def latest(self) -> Offsets:
        """The offset after the last that may be read of every partition; raises PipelineError."""
        ...

    def log_ends(self) -> Offsets:
        """The offset after the last that is there, to be read already or not, of every partition;
        raises PipelineError.
        """
        ...

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        """A streaming frame that begins at `start`, with at most so many offsets per batch."""
        ...

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        """A frame of these ranges."""
        ...
