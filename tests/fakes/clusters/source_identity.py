"""A source whose cluster and leader epochs are what a test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError

Entry = tuple[int, int]  # epoch, start offset


class KnownIdentity:
    """Epochs by partition, oldest first; partitions without any are not known."""

    def __init__(
        self,
        epochs: Mapping[TopicPartition, list[Entry]] | None = None,
        *,
        log_end_offset: int = 1_000,
        cluster: str | None = None,
    ) -> None:
        self.epochs = dict(epochs or {})
        self.log_end_offset = log_end_offset
        self.cluster = cluster
        self.is_reachable = True
        self.times: dict[TopicPartition, dict[int, int]] = {}  # by offset

    def cluster_id(self) -> str | None:
        """The id that was given."""
        self._answer()
        return self.cluster

    def leader_epochs(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The last of each."""
        self._answer()
        return {each: self.epochs[each][-1][0] for each in partitions if each in self.epochs}

    def end_offsets(self, epochs: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Where the next higher epoch begins, else the end of the log."""
        self._answer()
        return {
            partition: next(
                (start for known, start in self.epochs[partition] if known > epoch),
                self.log_end_offset,
            )
            for partition, epoch in epochs.items()
            if partition in self.epochs
        }

    def record_times(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Those that were given."""
        self._answer()
        return {
            partition: self.times[partition][offset]
            for partition, offset in offsets.items()
            if offset in self.times.get(partition, {})
        }

    def _answer(self) -> None:
        if not self.is_reachable:
            raise PipelineError("cannot connect", ExitCode.CANNOT_CONNECT)
