"""Plans what a mirror changes of the target's topics, so that they match those of the source. Pure.

Law: of an existing topic, only what has changed in the source is changed. So a setting that
somebody gave the target alone stays, and if two clusters copy from each other, a change in one is
not undone by the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

TIME_TYPE, BY_PRODUCER = "message.timestamp.type", "CreateTime"
# The times of records stay, and of whatever age they are, the target takes them.
# All others are about the brokers of one cluster.
LEFT_ALONE = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        TIME_TYPE,
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)

Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicForm:
    """A topic without its records. `settings` are its own; None: unknown. `replaces_times`: records
    get the time at which they are written.
    """

    name: str
    partitions: int
    settings: Settings | None
    replaces_times: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """A change that makes a topic of the target match. `partitions` 0: it has enough."""

    name: str
    is_new: bool = False
    partitions: int = 0
    sets: Settings = field(default_factory=dict)
    removes: tuple[str, ...] = ()


def wanted_settings(source: TopicForm, given: Settings) -> dict[str, str] | None:
    """Return the settings that the copy has; `given` override those of the source."""
    if source.settings is None:
        return None
    own = {name: value for name, value in source.settings.items() if name not in LEFT_ALONE}
    return {**own, **given}


def plan_topics(
    sources: Collection[TopicForm],
    targets: Mapping[str, TopicForm],
    seen: Mapping[str, Settings],
    given: Settings,
) -> list[TopicChange]:
    """Return what to change; `seen` are the settings, by topic, that were wanted the last time."""
    changes: list[TopicChange] = []
    for source in sources:
        wanted = wanted_settings(source, given)
        target = targets.get(source.name)
        if target is None:
            change = TopicChange(
                name=source.name,
                is_new=True,
                partitions=source.partitions,
                sets=dict(given) if wanted is None else wanted,
            )
        else:
            change = _change(source, target, wanted, seen.get(source.name, {}))
        if change != TopicChange(name=source.name):
            changes.append(change)
    return changes


def _change(
    source: TopicForm, target: TopicForm, wanted: Settings | None, seen: Settings
) -> TopicChange:
    there = target.settings or {}
    wanted = seen if wanted is None else wanted
    sets = {
        name: value
        for name, value in wanted.items()
        if seen.get(name) != value and there.get(name) != value
    }
    return TopicChange(
        name=source.name,
        partitions=source.partitions if source.partitions > target.partitions else 0,
        sets=sets | {TIME_TYPE: BY_PRODUCER} if target.replaces_times else sets,
        removes=tuple(name for name in seen if name not in wanted and name in there),
    )
