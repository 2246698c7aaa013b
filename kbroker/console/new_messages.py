"""New messages of a topic, as a page that stays open asks for them every moment: a live tail.

Law: each message since the last time is either shown, or counted among those that do not fit the
filter, those that fit and are too many to be shown, or those that were not looked at. Nothing is
kept here between two questions, so that a page that stops asking costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kbroker.client.record_places import END, START
from kbroker.console.consoled_cluster import ConsoledCluster
from kbroker.console.messages import FoundMessages, MessageSearch, messages

MOST_ROWS: Final = 100
_MOST_FILTERED = 20_000  # messages that a filter looks at
_SECONDS = 2.0


async def new_messages(cluster: ConsoledCluster, search: MessageSearch) -> FoundMessages:
    """Look for messages from the `starts` of a search on, the newest of them; without `starts` for
    none, so that `next_offsets` is where to begin. Its places, rows and bounds do not count.

    Raises ClientError, and ValueError for a decoder that there is not.
    """
    rows = min(search.rows, MOST_ROWS)
    found = await messages(
        cluster,
        replace(
            search,
            start=START if search.starts else END,  # a new partition is read from its start
            end=END,
            rows=rows,
            keeps_newest=True,
            newest_offsets=rows if search.wanted.is_empty else _MOST_FILTERED,
            most_s=_SECONDS,
        ),
    )
    # A partition whose leader is away goes on later where it was.
    return replace(found, next_offsets={**search.starts, **found.next_offsets})
