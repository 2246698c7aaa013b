"""Faults of the record and the group that were tried, and of clocks. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Observations
from kbroker.errors import ErrorCode

_CLOCK_MS = 2_000  # more than any clock that is set by NTP is off

_DENIED_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED.name
_DENIED_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED.name


def unwritten_records(seen: Observations) -> Iterator[Finding]:
    """Find what kept a record from being written and read back."""
    if seen.trial is None:
        return
    if seen.trial.refusal is not None:
        yield Finding(
            code="topic-refused",
            severity=Severity.ERROR,
            subject="cluster",
            seen=f"topic {seen.trial.topic} could not be made: {seen.trial.refusal}",
            means="New topics are refused, or refused to this user.",
            mends="Look at the log of the controller; if rights are missing, ask for a user who "
            "may create topics.",
        )
    for record in seen.trial.records:
        if record.refusal is not None:
            yield Finding(
                code="record-refused",
                severity=Severity.ERROR,
                subject=f"broker {record.node_id}",
                seen=f"a record of {seen.trial.topic} was not written to broker {record.node_id} "
                f"and read back: {record.refusal}",
                means="Producers and consumers of partitions that it leads have the same trouble.",
                mends="Look at the log of that broker; if rights are missing, ask for a user who "
                "may write and read.",
            )


def unjoined_group(seen: Observations) -> Iterator[Finding]:
    """Find what kept us from joining a group."""
    if seen.group is None or seen.group.refusal is None:
        return
    place = seen.group.coordinator
    if _DENIED_GROUP in seen.group.refusal:
        yield Finding(
            code="group-refused",
            severity=Severity.NOTE,
            subject="groups" if place is None else f"broker {place}",
            seen=f"this user may not join a group of the doctor's own: {seen.group.refusal}",
            means="It may still join those that rules let it read. Whether groups work was not "
            "tried.",
            mends="If it should join a group, `kbroker acl allow PRINCIPAL read --group GROUP` "
            "lets it; run the doctor as a user who may join any to try groups.",
        )
    else:
        yield Finding(
            code="group-refused",
            severity=Severity.ERROR,
            subject="groups" if place is None else f"broker {place}",
            seen="no broker coordinates a new group: " * (place is None)
            + ("a new group could not be joined: " * (place is not None))
            + seen.group.refusal,
            means="Consumers of groups wait, most of them without an error.",
            mends="Check that every partition of __consumer_offsets has a leader (`kbroker topic "
            "describe __consumer_offsets`), and look at the log of that broker.",
        )


def clocks(seen: Observations) -> Iterator[Finding]:
    """Find brokers whose clock is not ours, by the time that they put on a record; and times in the
    future that brokers wrote into their own topics.
    """
    for record in seen.trial.records if seen.trial else ():
        if record.ahead_ms is None or abs(record.ahead_ms) - record.give_ms < _CLOCK_MS:
            continue
        way = "ahead of" if record.ahead_ms > 0 else "behind"
        yield _clock(
            f"broker {record.node_id}",
            f"the clock of broker {record.node_id} is {abs(record.ahead_ms) / 1000:.1f} s {way} "
            f"that of this machine (give or take {record.give_ms / 1000:.1f} s)",
        )
    if seen.trial is None:
        for topic, ahead_ms in seen.latest_ahead_ms.items():
            if ahead_ms > _CLOCK_MS:
                yield _clock(
                    topic,
                    f"a broker wrote a time into {topic} that is {ahead_ms / 1000:.1f} s in the "
                    "future of this machine",
                )


def left_topic(seen: Observations) -> Iterator[Finding]:
    """Find a topic of our own that could not be deleted; one that we had no right to make is not
    there, whatever came of its deletion.
    """
    if seen.trial is None or _DENIED_TOPIC in (seen.trial.refusal or ""):
        return
    if seen.trial.left is not None:
        yield Finding(
            code="topic-left",
            severity=Severity.WARNING,
            subject=seen.trial.topic,
            seen=f"topic {seen.trial.topic}, made to try the cluster, was not deleted: "
            f"{seen.trial.left}",
            means="It stays with a record for each broker.",
            mends=f"`kbroker topic delete {seen.trial.topic}`, once that works.",
        )


def _clock(subject: str, seen: str) -> Finding:
    return Finding(
        code="clock",
        severity=Severity.WARNING,
        subject=subject,
        seen=seen,
        means="Retention, offsets by time, windows of streams, and logins with tickets or tokens "
        "go by these clocks.",
        mends="Set both clocks by NTP.",
    )
