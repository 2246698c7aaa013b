"""How far groups are behind, how fast that changes, and which fall behind."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.wall_clock import unix_now_ms
from kbroker.pipeline.cluster_errors import job_errors
from kbroker.pipeline.consumer_lag.cluster_look import ClusterLook, Wanted, take_look
from kbroker.pipeline.consumer_lag.lag_figures import (
    GroupFigures,
    PartitionFigures,
    Standing,
    group_figures,
    partition_figures,
    standings,
)
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents


class LagReport(NamedTuple):
    """The figures of one look."""

    look: ClusterLook
    partitions: Sequence[PartitionFigures]
    groups: Sequence[GroupFigures]  # by group and partition
    standings: Sequence[Standing]  # by group and topic


def lag(
    bootstrap: str,
    *,
    topics: Sequence[str] = (),
    groups: Sequence[str] = (),
    window_s: float = 300.0,
    before: LagReport | None = None,
    events: JobEvents = NOBODY,
) -> LagReport:
    """Look once where topics begin and end, and how far each group is behind.

    Without `topics`: all that are not internal, or those that the `groups` read. Rates are of the
    last `window_s` seconds; what is consumed, and when a group catches up, follow from the look
    `before`. Raises PipelineError.
    """
    wanted = Wanted(topics=tuple(topics), groups=tuple(groups), window_ms=round(window_s * 1_000))
    with job_errors(bootstrap), closing(ClusterLinks(bootstrap, tell=events.note)) as links:
        look = take_look(links, wanted, unix_now_ms())
    earlier = before.look if before is not None else None
    found = group_figures(look, earlier)
    return LagReport(look, partition_figures(look, earlier), found, standings(found, look))
