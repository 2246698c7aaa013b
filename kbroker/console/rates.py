"""Rates of topics, groups and brokers, from samples of a cluster: what is written in a second, and
when a group will have read what it has not. Pure.

Law: what is not known is None, never 0. A topic that was made again, an end or a committed offset
that went back, or a partition without a leader has no rate until two samples fit together.

Time to catch up: consumers commit every few seconds, so that even one that keeps up lags by what it
reads in such a time. Such a lag is read in lag / speed of reading; a greater one when it has
shrunk to nothing at its present pace, and never if it does not shrink. A group has caught up when
its last partition has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kbroker.client.consumer_groups import lag
from kbroker.client.group_summaries import GroupSummary
from kbroker.console.cluster_sample import ClusterSample, SampledBroker, SampledTopic
from kbroker.console.partition_figures import sum_of
from kbroker.model import TopicPartition

COMMIT_S: Final = 10.0
"""Between two commits of a consumer, at most: clients commit every 5 s by default."""
WINDOW_S: Final = 30.0
"""Age of the oldest sample that rates of groups should look back to."""


class Pace(StrEnum):
    """The progress of a group towards the ends of its partitions; the worst comes last."""

    CAUGHT_UP = "caught_up"
    KEEPING_UP = "keeping_up"  # it lags by no more than it reads between two commits
    CATCHING_UP = "catching_up"
    UNKNOWN = "unknown"  # it was watched for too short a time
    FALLING_BEHIND = "falling_behind"
    STANDING = "standing"  # it reads nothing, and there is something to read


_SEVERITY: Final = {pace: number for number, pace in enumerate(Pace)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRate:
    """A topic with what is written to it in a second, and what its leaders hold."""

    topic: SampledTopic
    records_per_s: float | None
    bytes_per_s: float | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRate:
    """A broker with what is written in a second to the partitions that it leads, and their size."""

    broker: SampledBroker
    leaders: int
    records_per_s: float | None
    bytes_per_s: float | None
    size_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRate:
    """A group: its lag, what it reads and what is written for it in a second, and when it will have
    caught up, None if that is not in sight. `most_behind` is the partition with the largest lag.
    """

    group: GroupSummary
    lag: int | None
    read_per_s: float | None
    written_per_s: float | None
    pace: Pace
    catch_up_s: float | None
    most_behind: TopicPartition | None


def topic_rates(before: ClusterSample | None, now: ClusterSample) -> list[TopicRate]:
    """Return the topics with their rates since the sample before, in the order of the sample."""
    written = _Written(before, now)
    places: defaultdict[str, list[TopicPartition]] = defaultdict(list)
    for place in now.leaders:
        places[place.topic].append(place)
    return [
        TopicRate(topic=topic, **written.to(None if topic.leaderless else places[name]))
        for name, topic in now.topics.items()
    ]


def broker_rates(before: ClusterSample | None, now: ClusterSample) -> list[BrokerRate]:
    """Return the brokers with their rates since the sample before, by id."""
    written = _Written(before, now)
    led: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for place, leader in now.leaders.items():
        led[leader].append(place)
    return [
        BrokerRate(
            broker=broker,
            leaders=len(led[broker.broker_id]),
            **written.to(led[broker.broker_id]),
        )
        for broker in now.brokers
    ]


def group_rates(samples: Sequence[ClusterSample]) -> list[GroupRate]:
    """Return the groups of the last sample, with rates over all samples, the oldest first."""
    return [_group_rate(samples, group) for group in samples[-1].groups.values()]


class _Written:
    """How much partitions have grown between two samples."""

    def __init__(self, before: ClusterSample | None, now: ClusterSample) -> None:
        self._sizes = now.sizes
        self._records: Mapping[TopicPartition, int] = {}
        self._bytes: Mapping[TopicPartition, int] = {}
        self._seconds = 0.0 if before is None else now.at_s - before.at_s
        if before is not None and self._seconds > 0:
            same = _same_topics(before, now)
            self._records = _growths(before.ends, now.ends, same)
            self._bytes = _growths(before.sizes, now.sizes, same)

    def to(self, places: Iterable[TopicPartition] | None) -> dict[str, Any]:
        """Return the figures of a row about these partitions; None: not known."""
        if places is None:
            return {"records_per_s": None, "bytes_per_s": None, "size_bytes": None}
        return {
            "records_per_s": self._rate(sum_of(map(self._records.get, places))),
            "bytes_per_s": self._rate(sum_of(map(self._bytes.get, places))),
            "size_bytes": sum_of(map(self._sizes.get, places)),
        }

    def _rate(self, grown: int | None) -> float | None:
        return None if grown is None or self._seconds <= 0 else grown / self._seconds


def _same_topics(before: ClusterSample, now: ClusterSample) -> frozenset[str]:
    """Return the topics of both samples that were not made again in between."""
    return frozenset(
        name
        for name, topic in now.topics.items()
        if name in before.topics and before.topics[name].topic_id == topic.topic_id
    )


def _growths(
    then: Mapping[TopicPartition, int], later: Mapping[TopicPartition, int], same: Container[str]
) -> dict[TopicPartition, int]:
    """Return what has grown, by how much; retention and truncation make partitions smaller."""
    return {
        place: figure - then[place]
        for place, figure in later.items()
        if place in then and figure >= then[place] and place.topic in same
    }


def _group_rate(samples: Sequence[ClusterSample], group: GroupSummary) -> GroupRate:
    now = samples[-1]
    tracks = [
        _Track(samples, group.name, place)
        for place in group.committed or ()
        if place.topic in now.topics  # offsets of deleted topics stay for a while
    ]
    behind = max(tracks, key=lambda track: track.lag or 0, default=None)
    paces = [track.pace() for track in tracks] or [(Pace.UNKNOWN, None)]
    pace = max((pace for pace, _ in paces), key=_SEVERITY.__getitem__)
    in_sight = _SEVERITY[pace] <= _SEVERITY[Pace.CATCHING_UP]
    return GroupRate(
        group=group,
        lag=sum_of(track.lag for track in tracks) if tracks else None,
        read_per_s=_total(track.read_per_s for track in tracks),
        written_per_s=_total(track.written_per_s for track in tracks),
        pace=pace,
        catch_up_s=max(seconds or 0.0 for _, seconds in paces) if in_sight else None,
        most_behind=behind.place if behind is not None and behind.lag else None,
    )


class _Point(NamedTuple):
    """A partition that a group reads, at one moment."""

    at_s: float
    committed: int
    end: int


class _Track:
    """A partition that a group reads, as the samples saw it: now, and in the first of them that
    fits, as neither its end nor what was committed has gone back since.
    """

    def __init__(self, samples: Sequence[ClusterSample], group: str, place: TopicPartition) -> None:
        self.place = place
        self._samples = samples
        self._group = group
        self._now = now = self._point(samples[-1])
        self.lag = None if now is None else lag(now.committed, now.end)
        self.read_per_s: float | None = None
        self.written_per_s: float | None = None
        if now is not None:
            self._look_back(now)

    def pace(self) -> tuple[Pace, float | None]:
        """Return the pace, and the seconds until the end is reached, None if it is not in sight."""
        if self.lag == 0:
            return Pace.CAUGHT_UP, 0.0
        read, written = self.read_per_s, self.written_per_s
        if self.lag is None or read is None or written is None:
            return Pace.UNKNOWN, None
        if read == 0:
            return (Pace.STANDING if self._has_stood() else Pace.UNKNOWN), None
        if self.lag <= read * COMMIT_S:
            return Pace.KEEPING_UP, self.lag / read
        if read > written:
            return Pace.CATCHING_UP, self.lag / (read - written)
        return Pace.FALLING_BEHIND, None

    def _look_back(self, now: _Point) -> None:
        for sample in self._samples[:-1]:
            then = self._point(sample)
            if then is None or then.end > now.end or then.committed > now.committed:
                continue
            seconds = now.at_s - then.at_s
            self.read_per_s = (now.committed - then.committed) / seconds
            self.written_per_s = (now.end - then.end) / seconds
            return

    def _has_stood(self) -> bool:
        """Whether there has long been something to read, and nothing was committed."""
        now = self._now
        for sample in reversed(self._samples):
            then = self._point(sample)
            if now is None or then is None or not then.committed == now.committed < then.end:
                return False
            if now.at_s - then.at_s >= COMMIT_S:
                return True
        return False

    def _point(self, sample: ClusterSample) -> _Point | None:
        group, topic = sample.groups.get(self._group), sample.topics.get(self.place.topic)
        known = self._samples[-1].topics[self.place.topic].topic_id
        if group is None or group.committed is None or topic is None or topic.topic_id != known:
            return None
        committed, end = group.committed.get(self.place), sample.ends.get(self.place)
        return None if committed is None or end is None else _Point(sample.at_s, committed, end)


def _total(figures: Iterable[float | None]) -> float | None:
    """Return the sum of those that are known; None if none is."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if known else None
