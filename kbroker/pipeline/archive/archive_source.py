"""A source that goes on where an archive ends.

A new checkpoint begins there too: the archive knows what it has, so that a lost checkpoint loses
nothing and doubles nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kbroker.pipeline.archive.archive_job import loss_sentence
from kbroker.pipeline.archive.manifests.archive_state import ArchiveState
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.frame.offsets import Offsets, Ranges
from kbroker.pipeline.sources.source import Source


class ContinuedSource:
    """Another source, with the ends of an archive as its beginnings. `state` None: no archive yet.

    Offsets that retention took between the two are refused, or with `allows_loss` asked for: the
    batch finds them missing, and says why.
    """

    def __init__(self, inner: Source, state: ArchiveState | None, *, allows_loss: bool) -> None:
        self.inner = inner
        self.needs_connector = inner.needs_connector
        self.bounds_itself = inner.bounds_itself
        self.fails_on_data_loss = False  # `check` compares with the archive, not the checkpoint
        self._state = state
        self._allows_loss = allows_loss

    def describe(self) -> str:
        """As the source itself: the archive is the job's target."""
        return self.inner.describe()

    def topic_ids(self) -> Mapping[str, str]:
        """As the source itself."""
        return self.inner.topic_ids()

    def earliest(self) -> Offsets:
        """The ends of the archive, and the log starts of what is not in it."""
        earliest = self.inner.earliest()
        if self._state is None:
            return earliest
        ends = {partition: self._state.end_offset(partition) for partition in earliest}
        return {
            partition: offset if (end := ends[partition]) is None else end
            for partition, offset in earliest.items()
        }

    def check(self) -> None:
        """Raises PipelineError where the source no longer has what the archive needs next."""
        if self._state is None:
            return
        self._state.refuse_other_topics(self.inner.topic_ids())
        latest = self.inner.latest()
        for partition, offset in self.inner.earliest().items():
            end_offset = self._state.end_offset(partition)
            if end_offset is None:
                continue
            if end_offset < offset and not self._allows_loss:
                raise PipelineError(loss_sentence(partition, end_offset, offset - 1))
            if partition in latest and latest[partition] < end_offset:
                raise PipelineError(
                    f"{partition} ends at offset {latest[partition]}, and the archive "
                    f"{self._state.path} goes up to {end_offset}: the topic was made anew, or it "
                    "is another cluster's; give it another archive"
                )

    def latest(self) -> Offsets:
        """As the source itself."""
        return self.inner.latest()

    def stream(self, spark: Any, start: Offsets, max_records: int | None) -> Any:
        """As the source itself."""
        return self.inner.stream(spark, start, max_records)

    def batch(self, spark: Any, ranges: Ranges) -> Any:
        """As the source itself."""
        return self.inner.batch(spark, ranges)
