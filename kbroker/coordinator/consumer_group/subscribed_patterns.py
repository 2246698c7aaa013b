"""Patterns of topics that members of a consumer group subscribe to: taken, resolved, let go.

Pure. Law: all patterns of a group are resolved together, beside the loop, one resolution at a time
and ten seconds apart (KIP-848); it is due when a pattern is new, when topics have come, and when
the last one is old. What comes of it counts for patterns that members still subscribe to. Only
topics that the member may describe whose heartbeat has set it off are among them, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from kbroker.coordinator.consumer_group.consumer_group import counted
from kbroker.coordinator.consumer_group.member import Member
from kbroker.coordinator.consumer_group.patterns import check_pattern
from kbroker.coordinator.consumer_group.record_values import (
    GroupMetadata,
    RecordKind,
    ResolvedRegularExpression,
)
from kbroker.coordinator.consumer_group.step import ConsumerStep, PatternJob
from kbroker.coordinator.runtime.effects import Compute

Found = Mapping[str, frozenset[str]]
"""The topics that each pattern matches."""

Visible = Callable[[Found], Awaitable[Found]]
"""Takes out what a client may not see."""

APART_MS = 10_000
_NO_VERSION = 0  # metadata of a cluster with a ZooKeeper has none; Kafka resolves it again soon


class PatternChange(NamedTuple):
    """The pattern of a member after a heartbeat, beside that before it."""

    is_other: bool
    is_known: bool  # if it is another one: whether its topics are, so that the group's are others


_SAME = PatternChange(is_other=False, is_known=False)


def take_pattern(
    step: ConsumerStep, before: Member, member: Member, visible: Visible | None
) -> PatternChange:
    """A member may have another pattern, and patterns may have to be resolved. Raises KafkaError
    for a pattern that cannot be used.
    """
    change, is_new = _SAME, False
    if before.pattern != member.pattern:
        change, is_new = _change(step, before, member)
    if is_new or step.group.pattern_counts:
        _resolve_if_due(step, before, member, visible, is_new=is_new)
    return change


def topics_of_patterns(step: ConsumerStep, before: Member, member: Member) -> set[str]:
    """The topics of all patterns, once `before` has become `member`."""
    group = step.group
    if not _ends(step, before, member) or before.pattern not in group.resolved:
        return set(group.pattern_topics)
    ended = ((topic, -1) for topic in group.resolved[before.pattern].topics)
    return set(counted(group.pattern_topics, *ended))


def on_resolved(step: ConsumerStep, job: PatternJob, found: Found | None) -> None:
    """Patterns were resolved beside the loop; None if that failed, and then it is tried again
    later.
    """
    group, attendance = step.group, step.attendance
    if attendance.pattern_job is not job:
        return  # nobody waits for it any more
    attendance.pattern_job = None
    if found is None:
        let_patterns_wait(step)
        return
    changes: list[tuple[str, int]] = []
    has_changed = False
    for pattern, topics in found.items():
        if pattern not in group.pattern_counts:
            continue
        known = group.resolved.get(pattern)
        former = known.topics if known is not None else frozenset[str]()
        if topics != former:
            has_changed = True
            changes += ((topic, -1) for topic in former)
            changes += ((topic, 1) for topic in topics)
        resolved = ResolvedRegularExpression(topics, _NO_VERSION, job.begun_ms)
        step.change(RecordKind.REGULAR_EXPRESSION, resolved, pattern)
    if step.changes:
        _raise_epoch(step, counted(group.pattern_topics, *changes), has_changed=has_changed)


def let_patterns_wait(step: ConsumerStep) -> None:
    """Let another resolution be due, but not at once: the last one does not count."""
    attendance = step.attendance
    attendance.arrivals_seen = -1
    attendance.patterns_not_before_ms = step.now.monotonic_ms + APART_MS


def _raise_epoch(step: ConsumerStep, pattern_topics: Mapping[str, int], has_changed: bool) -> None:
    group, attendance = step.group, step.attendance
    metadata_hash = step.given.topics.metadata_hash({*group.topic_counts, *pattern_topics})
    if has_changed or metadata_hash != group.metadata.metadata_hash:
        epoch = group.epoch + 1
        step.change(RecordKind.GROUP_METADATA, GroupMetadata(epoch, metadata_hash))
        attendance.must_look_at_topics = False
        attendance.looked_at_epoch = epoch


def _change(step: ConsumerStep, before: Member, member: Member) -> tuple[PatternChange, bool]:
    """Write the end of the former pattern, if nobody else has it; returns what has changed, and
    whether the pattern is new to the group.
    """
    group = step.group
    if _ends(step, before, member):
        step.change(RecordKind.REGULAR_EXPRESSION, None, before.pattern)
    if not member.pattern:
        return PatternChange(is_other=True, is_known=True), False
    is_new = member.pattern not in group.pattern_counts
    if is_new:
        check_pattern(member.pattern)
    return PatternChange(is_other=True, is_known=member.pattern in group.resolved), is_new


def _ends(step: ConsumerStep, before: Member, member: Member) -> bool:
    """Whether a member was the last one with its former pattern."""
    former = before.pattern
    return former not in ("", member.pattern) and step.group.pattern_counts.get(former) == 1


def _resolve_if_due(
    step: ConsumerStep, before: Member, member: Member, visible: Visible | None, *, is_new: bool
) -> None:
    group, attendance, given = step.group, step.attendance, step.given
    if attendance.pattern_job is not None:
        return
    last = next((each.timestamp_ms for each in group.resolved.values()), None)
    age_ms = None if last is None else step.now.wall_ms - last
    if age_ms is not None and 0 <= age_ms <= APART_MS:
        return
    if step.now.monotonic_ms < attendance.patterns_not_before_ms:
        return
    patterns = _patterns_after(step, before, member)
    arrivals = given.topics.arrivals
    is_due = (
        is_new
        or len(patterns) != len(group.resolved)
        or arrivals != attendance.arrivals_seen
        or age_ms is None
        or not 0 <= age_ms <= given.pattern_refresh_ms
    )
    if is_due and patterns:
        job = PatternJob(frozenset(patterns), step.now.wall_ms)
        attendance.pattern_job = job
        attendance.arrivals_seen = arrivals
        work = partial(given.match, job.patterns, given.topics.names(), step.most_bytes)
        step.effects.append(Compute(work, job, visible))


def _patterns_after(step: ConsumerStep, before: Member, member: Member) -> Mapping[str, int]:
    counts = step.group.pattern_counts
    if before.pattern == member.pattern:
        return counts
    changes = ((before.pattern, -1), (member.pattern, 1))
    return counted(counts, *(each for each in changes if each[0]))
