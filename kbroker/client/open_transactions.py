"""Open transactions, which hide the records behind them.

Law: a read_committed reader stops at an open transaction without a word, and so does a group's
offset. Whatever shows either says why, or records would seem to be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.client.cluster_links import LATEST, ClusterLinks, TopicView
from kbroker.client.topic_figures import offsets_at
from kbroker.model import TopicPartition
from kbroker.wording import named

_MOST_NAMED = 3


def held_back(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
) -> dict[TopicPartition, int]:
    """Return the offset of the first open transaction, for partitions that have one before these
    `ends` and whose leaders answer.
    """
    stable = offsets_at(links, leaders, LATEST, only_committed=True)
    return {place: at for place, at in stable.items() if at < (ends.get(place) or 0)}


def held_in_topic(
    links: ClusterLinks, view: TopicView, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return what `held_back` does, for a reader of one topic that waits for leaders.

    Raises OSError, KafkaError, ClientError.
    """
    numbers = [place.partition for place in ends if place.topic == view.name]
    stable = links.offsets(view, numbers, LATEST, only_committed=True)
    places = {TopicPartition(view.name, number): at for number, at in stable.items()}
    return {place: at for place, at in places.items() if at < ends[place]}


def sentence_of_open(held: Mapping[TopicPartition, int]) -> str:
    """Return the sentence about partitions with open transactions, by offset.

    >>> print(sentence_of_open({TopicPartition("a", 0): 7}).partition(": ")[0])
    a-0 has an open transaction at offset 7
    """
    places = [f"{place} (offset {offset})" for place, offset in sorted(held.items())]
    command = f"`kbroker txn producers {min(held).topic}`"
    if len(held) == 1:
        return (
            f"{min(held)} has an open transaction at offset {min(held.values())}: read_committed "
            f"waits there ({command})"
        )
    return (
        f"{named(places, _MOST_NAMED)} have open transactions: read_committed waits there "
        f"({command})"
    )
