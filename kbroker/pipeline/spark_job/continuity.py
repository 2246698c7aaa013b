"""Checks whether a source still has what a job reads next. Values only."""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.spark_job.offsets import Offsets

_ANEW = "begin with a new --checkpoint"


def check_continuity(
    position: Offsets, earliest: Offsets, log_ends: Offsets, *, fails_on_data_loss: bool
) -> None:
    """Raise PipelineError for the first partition that cannot go on from `position`.

    A partition that `position` lacks begins at 0. If a log ends before its position it is not the
    log that the job has read so far: that is refused in any case.
    """
    gone = sorted(partition for partition in position if partition not in log_ends)
    if gone and fails_on_data_loss:
        raise PipelineError(_gone(gone))
    for partition, end in sorted(log_ends.items()):
        offset = position.get(partition, 0)
        if end < offset:
            raise PipelineError(went_back(str(partition), offset, end))
        first = earliest.get(partition, 0)
        if first > offset and fails_on_data_loss:
            raise PipelineError(removed(str(partition), offset, first))


def named_places(places: Sequence[TopicPartition] | Sequence[str]) -> str:
    """Name the first five partitions or topics, and say how many more there are."""
    names = ", ".join(map(str, places[:5]))
    return names + (f" and {len(places) - 5} more" if len(places) > 5 else "")


def _gone(partitions: list[TopicPartition]) -> str:
    return (
        f"{named_places(partitions)}: gone, though the checkpoint continues there; if the topic "
        f"was deleted for good, {_ANEW}"
    )


def went_back(partition: str, offset: int, end_offset: int) -> str:
    """Return the sentence for a log that is shorter than it was."""
    return (
        f"{partition} ends at offset {end_offset}, and the checkpoint is at {offset}: the topic "
        f"was deleted and created again, or its log was cut; {_ANEW}"
    )


def removed(partition: str, offset: int, first: int) -> str:
    """Return the sentence for records that retention removed."""
    return (
        f"offsets {offset} to {first - 1} of {partition} were removed before they were read "
        "(retention, or DeleteRecords): give the topic a longer retention or run the job more "
        f"often; to continue without them, {_ANEW}"
    )
