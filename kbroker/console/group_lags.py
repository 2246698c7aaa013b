"""Lags of several groups, for a page of a list: each group is asked, as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from kbroker.client.cluster_links import LATEST
from kbroker.client.consumer_groups import committed_offsets, lag
from kbroker.client.topic_figures import leaders_of, offsets_at
from kbroker.console.consoled_cluster import Work
from kbroker.console.gaps import Gaps
from kbroker.console.partition_figures import sum_of
from kbroker.model import TopicPartition
from kbroker.wording import counted, shown

_MOST_S: Final = 2.0

Committed = dict[TopicPartition, int]


def lags_of(work: Work, groups: Sequence[str], gaps: Gaps) -> dict[str, int | None]:
    """Return the lag of each group that has committed something; None if it is not known."""
    committed = _committed(work, groups, gaps)
    places = {place for each in committed.values() for place in each}
    topics = sorted({place.topic for place in places})
    described = work.links.describe(topics).topics if topics else []
    leaders = {place: leader for place, leader in leaders_of(described).items() if place in places}
    ends = offsets_at(work.links, leaders, LATEST)
    return {
        group: sum_of(lag(at, ends.get(place)) for place, at in offsets.items())
        for group, offsets in committed.items()
        if offsets
    }


def _committed(work: Work, groups: Sequence[str], gaps: Gaps) -> dict[str, Committed]:
    give_up_s = time.monotonic() + _MOST_S
    found: dict[str, Committed] = {}
    for number, group in enumerate(groups):
        work.check()
        if time.monotonic() > give_up_s:
            left = counted(len(groups) - number, "group")
            gaps.tell(f"the lags of {left} are not known: the others took {_MOST_S:.0f} s")
            break
        with gaps.around(f"offsets of group {shown(group)}"):
            offsets = committed_offsets(work.links, group)
            found[group] = {place: at for place, at in offsets.items() if at is not None}
    return found
