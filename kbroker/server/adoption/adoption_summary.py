"""The summary that an operator reads before agreeing to an adoption, and again after it.

Pure. A sentence says what is taken over from where, and a line each detail: who wrote it, what was
not known, what is left. What to do now comes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kbroker.model import GROUP_METADATA_TOPIC, TopicPartition
from kbroker.server.adoption.plan import AdoptionPlan

_NAMES_SHOWN = 5


def proposal(plan: AdoptionPlan) -> str:
    """Describe what `--adopt` would do."""
    details = _details(plan, "would leave", "would remove")
    done = "nothing was changed: add --adopt to agree"
    return "\n".join((f"kbroker would adopt {_what(plan)}", *_indented(details), done))


def report(plan: AdoptionPlan) -> str:
    """Describe what `--adopt` did."""
    details = _details(plan, "left", "will remove")
    return "\n".join((f"kbroker adopted {_what(plan)}", *_indented(details)))


def _indented(details: Iterable[str]) -> Iterator[str]:
    return (f"  {detail}" for detail in details)


def _details(plan: AdoptionPlan, leave: str, remove: str) -> list[str]:
    parts = [_origin(plan), _groups(plan)]
    parts.extend(_taken_over(plan))
    parts.extend(_unknowns(plan))
    behind = [TopicPartition(topic.name, p) for topic in plan.topics for p in topic.behind]
    if behind:
        parts.append(
            f"{_count(len(behind), 'partition')}, {_some(map(str, behind))}, may lack the newest "
            "records, which other brokers of the cluster had"
        )
    missing = [TopicPartition(topic.name, p) for topic in plan.topics for p in topic.missing]
    if missing:
        parts.append(
            f"{_count(len(missing), 'partition')} without a directory here, "
            f"{_some(map(str, missing))}, begin{'s' * (len(missing) == 1)} empty"
            f"{_lost_groups(missing)}"
        )
    for topic, reason in plan.refused.items():
        parts.append(f"{leave} topic {topic}: {reason}")
    if plan.left:
        parts.append(f"{leave} as they are: {_some(plan.left)}")
    if plan.leaving:
        parts.append(
            f"{remove} {_some(plan.leaving)} a minute after the start, as their topics were deleted"
        )
    return parts


def _taken_over(plan: AdoptionPlan) -> Iterator[str]:
    """Say what goes on beside topics and groups."""
    if plan.users:
        yield f"{_count(len(plan.users), 'user')} with SCRAM logins"
    if plan.quotas:
        yield _count(sum(map(len, plan.quotas.values())), "quota")
    if plan.acls:
        yield f"{_count(sum(map(len, plan.acls.values())), 'rule')} of access"
    if plan.tokens:
        yield (
            f"{_count(len(plan.tokens), 'delegation token')}, which log in under the secret that "
            "signed them (delegation.token.secret.key)"
        )
    if plan.groups:
        yield f"{_count(sum(map(len, plan.groups.values())), 'setting')} of single groups"
    if plan.levels:
        levels = ", ".join(f"{name} {level}" for name, level in sorted(plan.levels.items()))
        yield f"levels of features: {levels}"


def _lost_groups(missing: Iterable[TopicPartition]) -> str:
    is_offsets_missing = any(place.topic == GROUP_METADATA_TOPIC for place in missing)
    return ", and groups that were kept there are not known" if is_offsets_missing else ""


def _what(plan: AdoptionPlan) -> str:
    partitions = sum(len(topic.leader_epochs) for topic in plan.topics)
    return (
        f"{_count(len(plan.topics), 'topic')} with {_count(partitions, 'partition')} from "
        f"{', '.join(plan.paths)}"
    )


def _groups(plan: AdoptionPlan) -> str:
    offsets = next((t for t in plan.topics if t.name == GROUP_METADATA_TOPIC), None)
    if offsets is None:
        return f"no groups: there is no {GROUP_METADATA_TOPIC}"
    return (
        "groups with their committed offsets, in the "
        f"{_count(len(offsets.leader_epochs), 'partition')} of {GROUP_METADATA_TOPIC}"
    )


def _origin(plan: AdoptionPlan) -> str:
    stop = "" if plan.is_clean else ", not stopped cleanly"
    meta = plan.meta
    if meta is None:
        return f"written by an unknown broker (no meta.properties){stop}"
    mode = "KRaft" if meta.version == 1 else "ZooKeeper"
    cluster = f"cluster {meta.cluster_id}" if meta.cluster_id else "a cluster without id"
    broker = f"broker {meta.broker_id}" if meta.broker_id is not None else "a broker without id"
    return (
        f"written by {broker} of {cluster} in {mode} mode "
        f"(meta.properties version {meta.version}){stop}"
    )


def _unknowns(plan: AdoptionPlan) -> list[str]:
    parts = []
    kept = [topic.name for topic in plan.topics if not topic.is_retention_known]
    if kept:
        reason = (
            f"topic settings are not known ({plan.unknown_settings})"
            if plan.unknown_settings is not None
            else "the broker's own retention is not known (set log.retention.hours to give it)"
        )
        parts.append(
            f"{_count(len(kept), 'topic')} keep{'s' * (len(kept) == 1)} all records: {reason}"
        )
        parts.append(
            "`kbroker topic alter TOPIC --config retention.ms=MS` limits what a topic keeps"
        )
        if plan.unknown_settings is not None:
            parts.append(
                "no topic is compacted until `kbroker topic alter TOPIC --config "
                "cleanup.policy=compact` says so again"
            )
    has_offsets = any(topic.name == GROUP_METADATA_TOPIC for topic in plan.topics)
    if has_offsets and plan.offsets_retention_minutes is not None:
        parts.append(
            "committed offsets of groups without members expire after "
            f"{_time(plan.offsets_retention_minutes)} (offsets.retention.minutes)"
        )
    if plan.dropped_settings:
        parts.append(
            f"settings that kbroker cannot use are dropped: {_some(plan.dropped_settings)}"
        )
    return parts


def _time(minutes: int) -> str:
    for unit, length in (("day", 24 * 60), ("hour", 60)):
        if minutes % length == 0:
            return _count(minutes // length, unit)
    return _count(minutes, "minute")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    rest = len(listed) - _NAMES_SHOWN
    shown = ", ".join(listed[:_NAMES_SHOWN])
    return f"{shown} and {rest} more" if rest > 0 else shown
