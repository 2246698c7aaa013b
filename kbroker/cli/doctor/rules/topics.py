"""Topics that cannot be made, or that need more than they have. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Observations, SeenTopic
from kbroker.cli.doctor.rules.numbers import number_of
from kbroker.cli.doctor.rules.settings import SOFTWARE_MARK, ZOOKEEPER
from kbroker.model import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from kbroker.wording import counted, named

TRIAL_PREFIX = "kbroker-doctor-"
"""The beginning of the names of topics and groups that are made to try a cluster."""

_INTERNAL = (
    (
        GROUP_METADATA_TOPIC,
        "offsets.topic.replication.factor",
        Severity.ERROR,
        "Consumers of groups get COORDINATOR_NOT_AVAILABLE and wait without an error.",
    ),
    (
        TRANSACTION_STATE_TOPIC,
        "transaction.state.log.replication.factor",
        Severity.WARNING,
        "Transactional producers cannot begin.",
    ),
)


def internal_topics(seen: Observations) -> Iterator[Finding]:
    """Find topics for groups and transactions that are still to be made and cannot be."""
    cluster = seen.cluster
    if cluster is None:
        return
    there = len(cluster.broker_ids)
    for topic, setting, severity, means in _INTERNAL:
        asked = {number_of(each, setting) for each in seen.settings.values() if _insists(each)}
        wanted = sorted(number for number in asked if number is not None)
        if wanted and wanted[0] > there and not cluster.has_topic(topic):
            yield Finding(
                code="internal-topic-impossible",
                severity=severity,
                subject=topic,
                seen=f"{topic} is not there yet, {setting} is {named(wanted)}, and the cluster has "
                f"{counted(there, 'broker')}",
                means=f"It cannot be made. {means}",
                mends=f"Start more brokers, or set {setting}={there} and restart the brokers.",
            )


def minimum_equals_replicas(seen: Observations) -> Iterator[Finding]:
    """Find topics that stop taking writes when a single broker is away, and those that demand more
    than they can have.
    """
    topics = seen.cluster.topics if seen.cluster else ()
    above = [each for each in topics if _surplus(each) > 0]
    equal = [each for each in topics if _surplus(each) == 0 and each.replication_factor > 1]
    if above:
        yield Finding(
            code="min-isr-above-replicas",
            severity=Severity.WARNING,
            subject="topics",
            seen=f"min.insync.replicas is larger than the number of replicas of {_named(above)}",
            means="Older brokers refuse all writes with acks=all; newer ones demand all replicas, "
            "so that no broker may be away.",
            mends="Give the topics more replicas (`kbroker cluster reassign`), or a lower "
            "min.insync.replicas.",
        )
    if equal:
        yield Finding(
            code="min-isr-equals-replicas",
            severity=Severity.WARNING,
            subject="topics",
            seen=f"min.insync.replicas is the number of replicas of {_named(equal)}",
            means="As soon as one broker is away, as in each restart, writes with acks=all stop.",
            mends="Lower min.insync.replicas by one, or add a replica.",
        )


def left_behind(seen: Observations) -> Iterator[Finding]:
    """Find topics that a doctor before this one left."""
    topics = seen.cluster.topics if seen.cluster else ()
    left = [each.name for each in topics if each.name.startswith(TRIAL_PREFIX)]
    if left:
        yield Finding(
            code="left-behind",
            severity=Severity.NOTE,
            subject="topics",
            seen=f"there are topics of a doctor with --write that was killed: {named(left)}",
            means="They hold a record each.",
            mends=f"`kbroker topic delete {' '.join(left)}`",
        )


def _insists(settings: Mapping[str, str]) -> bool:
    """Say whether a broker makes no internal topic with fewer replicas: kbroker with a tree of its
    own does, because no other broker can come.
    """
    return SOFTWARE_MARK not in settings or bool(settings.get(ZOOKEEPER))


def _surplus(topic: SeenTopic) -> int:
    """Return by how much the minimum is above the replicas; -1 if all is well or not known."""
    minimum = topic.min_insync_replicas
    if minimum is None or not topic.replication_factor or minimum <= 1:
        return -1
    return max(minimum - topic.replication_factor, -1)


def _named(topics: list[SeenTopic]) -> str:
    return named(
        f"{each.name} ({each.min_insync_replicas} of {each.replication_factor})" for each in topics
    )
