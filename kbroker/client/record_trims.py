"""Deletions of the oldest records of topics, worked out first, so that a person sees what would go.

Law: the ends are asked for before anything else, so that records which are written meanwhile stay,
because nobody asked to delete them. A partition that refuses does not keep the others from being
trimmed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kbroker.client.cluster_configs import Resource, describe_configs
from kbroker.client.cluster_links import EARLIEST, ClusterLinks
from kbroker.client.moments import timestamp_ms
from kbroker.client.topic_figures import ends_of, offsets_at
from kbroker.config.config_resources import ResourceType
from kbroker.errors import ErrorCode, KafkaError, Trouble
from kbroker.model import TopicPartition
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest

_POLICY, _COMPACTED_ONLY = "cleanup.policy", "compact"
_TIMEOUT_MS = 20_000  # less than the client waits for an answer


@dataclass(frozen=True, slots=True)
class TrimPoint:
    """The end that `--before` names: an offset, a time in Unix ms, or (both None) the end of the
    partition.
    """

    offset: int | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Offsets:
    """The first and the end offset of a partition, and the first that it shall have."""

    start: int
    end: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimPlan:
    """The offsets of each partition that answers, and a sentence for each that cannot be trimmed;
    `trouble` points to more about those.
    """

    offsets: Mapping[TopicPartition, Offsets]
    failures: list[str]
    trouble: Trouble | None

    @property
    def cuts(self) -> dict[TopicPartition, int]:
        """The first offset to keep, of each partition that has something to delete."""
        return {
            place: each.target
            for place, each in self.offsets.items()
            if each.start < each.target <= each.end
        }

    def within(self, starts: Mapping[int, int]) -> TrimPlan:
        """Return the plan that lets no partition begin later than these say, by its number, and
        leaves the others alone.
        """
        offsets = {
            place: replace(each, target=min(each.target, starts.get(place.partition, each.start)))
            for place, each in self.offsets.items()
        }
        return replace(self, offsets=offsets)


def trim_point(text: str, now_ms: int) -> TrimPoint | None:
    """Return the point that a text names: `end`, an offset or a moment; None for any other text.
    `now_ms` is Unix time.
    """
    if text in ("end", "latest"):
        return TrimPoint()
    if text.isascii() and text.isdecimal():
        return TrimPoint(offset=int(text))
    at_ms = timestamp_ms(text, now_ms)
    return None if at_ms is None else TrimPoint(at_ms=at_ms)


def planned_trim(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int], cut: TrimPoint
) -> TrimPlan:
    """Work out what would go, and delete nothing."""
    ends = ends_of(links, leaders)
    found = _offsets(links, leaders, ends.offsets, cut)
    failures = [ends.refusal(place) for place in leaders if place not in found]
    failures += [
        _beyond_end(place, offsets)
        for place, offsets in sorted(found.items())
        if offsets.target > offsets.end
    ]
    return TrimPlan(offsets=found, failures=failures, trouble=ends.trouble)


def _offsets(
    links: ClusterLinks,
    leaders: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    cut: TrimPoint,
) -> dict[TopicPartition, Offsets]:
    """Return the offsets of each partition that answers.

    The ends were asked for first: if no record is as new as the time, all up to there goes, and
    records that are written from now on stay.
    """
    known = {place: leaders[place] for place in ends}
    starts = offsets_at(links, known, EARLIEST)
    targets: Mapping[TopicPartition, int]
    if cut.at_ms is not None:
        at_time = offsets_at(links, known, max(cut.at_ms, 0))
        targets = {p: found if found >= 0 else ends[p] for p, found in at_time.items() if p in ends}
    elif cut.offset is not None:
        targets = dict.fromkeys(ends, cut.offset)
    else:
        targets = ends
    return {
        p: Offsets(starts[p], ends[p], targets[p]) for p in ends if p in starts and p in targets
    }


def foreseen_starts(
    links: ClusterLinks, cuts: Mapping[TopicPartition, int], tell: Callable[[str], None]
) -> tuple[Mapping[TopicPartition, int], list[str]]:
    """Return where partitions would begin, and a sentence for each that would refuse. `tell` gets
    one if that is not known.
    """
    topics = [Resource(ResourceType.TOPIC, name) for name in {place.topic for place in cuts}]
    try:
        found = describe_configs(links, topics, [_POLICY])
    except (OSError, KafkaError) as error:
        tell(f"{_POLICY} is not known, a compacted topic would refuse: {error}")
        return cuts, []
    if any(each.value == _COMPACTED_ONLY for settings in found.values() for each in settings):
        return {}, [_refusal(place, ErrorCode.POLICY_VIOLATION) for place in cuts]
    return cuts, []


def delete_records(
    links: ClusterLinks, leaders: Mapping[TopicPartition, int], cuts: Mapping[TopicPartition, int]
) -> tuple[dict[TopicPartition, int], list[str]]:
    """Delete the records before these offsets, in partitions of one topic. Return where they begin
    now, and a sentence for each that refused.
    """
    by_leader: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place in cuts:
        by_leader[leaders[place]].append(place)
    starts: dict[TopicPartition, int] = {}
    failures = []
    for leader, places in by_leader.items():
        partitions = [
            DeleteRecordsRequest.DeleteRecordsPartition(
                partition_index=place.partition, offset=cuts[place]
            )
            for place in places
        ]
        topic = DeleteRecordsRequest.DeleteRecordsTopic(name=places[0].topic, partitions=partitions)
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
        try:
            results = links.link(leader).ask(request).topics[0].partitions
        except OSError as error:
            failures += [f"{place}: {error}" for place in places]
            continue
        for result in results:
            place = TopicPartition(topic.name, result.partition_index)
            if result.error_code == ErrorCode.NONE:
                starts[place] = result.low_watermark
            else:
                failures.append(_refusal(place, ErrorCode(result.error_code)))
    return starts, failures


def _beyond_end(place: TopicPartition, offsets: Offsets) -> str:
    return (
        f"{place}: nothing was deleted, offset {offsets.target} is beyond the end offset "
        f"{offsets.end} (--before end deletes all there is)"
    )


def _refusal(place: TopicPartition, code: ErrorCode) -> str:
    if code == ErrorCode.POLICY_VIOLATION:
        return (
            f"{place}: a compacted topic keeps the newest record of each key; records before an "
            "offset go only with cleanup.policy=compact,delete (POLICY_VIOLATION)"
        )
    return f"{place}: nothing was deleted ({code.name})"
