"""Finds records that others have written into a partition beside a restore.

Functions raise ClientError, KafkaError and OSError.
"""

from __future__ import annotations

from kbroker.client.cluster_links import EARLIEST, LATEST, ClusterLinks, TopicView
from kbroker.client.record_fetcher import Course, RecordFetcher
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.restoring.topics.offset_runs import OffsetRun


def check_before(
    links: ClusterLinks, view: TopicView, target: TopicPartition, first_offset: int
) -> None:
    """Raise PipelineError if there are records before the first one that a restore commits."""
    start = links.offsets(view, [target.partition], EARLIEST)[target.partition]
    if start < first_offset and has_records(links, view, target, start, first_offset):
        raise PipelineError(
            f"{target} has records before offset {first_offset}, which were written since this "
            "restore began, maybe by another one: give --append to write behind them, or begin "
            "with a new --checkpoint and --rename to write elsewhere"
        )


def check_end(
    links: ClusterLinks, view: TopicView, target: TopicPartition, last_run: OffsetRun
) -> None:
    """Raise PipelineError if a partition goes on behind the last transaction of a restore."""
    own_end = last_run.target_offset + last_run.records + 1  # behind the transaction's marker
    end_offset = links.offsets(view, [target.partition], LATEST)[target.partition]
    if end_offset > own_end:
        raise PipelineError(
            f"{target} has records up to offset {end_offset - 1}, and this restore wrote those "
            f"before {own_end - 1}: give --append to write behind them where they are others'; or "
            "put the newest copy of the checkpoint back, as with an older one they would be there "
            "twice"
        )


def has_records(
    links: ClusterLinks, view: TopicView, place: TopicPartition, start: int, end: int
) -> bool:
    """Return whether there are, or may be, records from `start` to `end`, exclusive: markers and
    aborted ones do not count, those of open transactions do.
    """
    number = place.partition
    if links.offsets(view, [number], LATEST, only_committed=True)[number] < end:
        return True
    course = Course(starts={place: start}, ends={place: end}, only_committed=True)
    records = RecordFetcher(links, [view], course, lambda _: None).batches()
    is_there = next(records, None) is not None
    for link in links.busy():
        links.lose(link)  # else its late answer would be taken for the next one
    return is_there
