"""Settings of brokers that bite. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Observations
from kbroker.cli.doctor.rules.numbers import number_of
from kbroker.wording import counted, named

_AUTO_CREATE = "auto.create.topics.enable"
_FIRST_REBALANCE = "group.initial.rebalance.delay.ms"
_LARGEST_MESSAGE = "message.max.bytes"
_LARGEST_REQUEST = "socket.request.max.bytes"
_LONGEST_SESSION = "group.max.session.timeout.ms"
_MIN_ISR = "min.insync.replicas"
_REPLICAS = "default.replication.factor"
_SHORTEST_SESSION = "group.min.session.timeout.ms"
_UNCLEAN = "unclean.leader.election.enable"
_OFFSETS_REPLICAS = "offsets.topic.replication.factor"
_TRANSACTION_REPLICAS = "transaction.state.log.replication.factor"
SOFTWARE_MARK, ZOOKEEPER = "kbroker.flush", "zookeeper.connect"
"""Settings: one that only kbroker has, and one that is empty without a ZooKeeper."""

WATCHED = (
    _AUTO_CREATE, _FIRST_REBALANCE, _LARGEST_MESSAGE, _LARGEST_REQUEST, _LONGEST_SESSION, _MIN_ISR,
    _REPLICAS, _SHORTEST_SESSION, _UNCLEAN, _OFFSETS_REPLICAS, _TRANSACTION_REPLICAS, SOFTWARE_MARK,
    ZOOKEEPER,
)  # fmt: skip
"""The settings that brokers are asked for."""

_PRODUCERS_MESSAGE_BYTES = 1_000_000  # what librdkafka's send at most; Java's 1,048,576
_KAFKAS_DELAY_MS = 3_000
_SESSIONS_MS = (10_000, 45_000)  # the defaults of clients, older and newer
_ALIKE = (_AUTO_CREATE, _LARGEST_MESSAGE, _MIN_ISR, _REPLICAS, _UNCLEAN)


def too_many_replicas(seen: Observations) -> Iterator[Finding]:
    """Find brokers that make topics with more replicas than there are brokers, unless one says that
    it would make one all the same.
    """
    if any(broker.makes_topics for broker in seen.brokers):
        return
    there = len(seen.cluster.broker_ids) if seen.cluster else 0
    for value, node_ids in _numbers(seen, _REPLICAS).items():
        if there and value > there:
            yield Finding(
                code="replicas-above-brokers",
                severity=Severity.ERROR,
                subject=_brokers(node_ids),
                seen=f"{_REPLICAS} is {value}, and there {_are(there)}",
                means="Topics that are made without a number of replicas, also at their first use, "
                "are refused with INVALID_REPLICATION_FACTOR.",
                mends=f"Start more brokers, or set {_REPLICAS}={there}.",
            )


def minimum_above_replicas(seen: Observations) -> Iterator[Finding]:
    """Find brokers whose new topics demand more replicas in sync than they get."""
    for node_id, settings in seen.settings.items():
        minimum, replicas = number_of(settings, _MIN_ISR), number_of(settings, _REPLICAS)
        if minimum is not None and replicas is not None and minimum > replicas:
            yield Finding(
                code="min-isr-above-default-replicas",
                severity=Severity.WARNING,
                subject=f"broker {node_id}",
                seen=f"{_MIN_ISR} is {minimum}, and {_REPLICAS} is {replicas}",
                means="New topics cannot have as many replicas in sync: older brokers refuse all "
                "their writes with acks=all, newer ones demand all replicas.",
                mends=f"Set {_REPLICAS} to {minimum + 1}, or {_MIN_ISR} to {max(replicas - 1, 1)}.",
            )


def small_messages(seen: Observations) -> Iterator[Finding]:
    """Find brokers that refuse messages which producers send by default."""
    for value, node_ids in _numbers(seen, _LARGEST_MESSAGE).items():
        if value < _PRODUCERS_MESSAGE_BYTES:
            yield Finding(
                code="small-messages",
                severity=Severity.WARNING,
                subject=_brokers(node_ids),
                seen=f"{_LARGEST_MESSAGE} is {value:,}",
                means="Batches that producers make with their defaults (up to 1 MB) are refused "
                "with MESSAGE_TOO_LARGE.",
                mends=f"Set {_LARGEST_MESSAGE} to 1048588, which is the default, or more, or "
                "max.message.bytes of single topics.",
            )
    for node_id, settings in seen.settings.items():
        request, message = (number_of(settings, n) for n in (_LARGEST_REQUEST, _LARGEST_MESSAGE))
        if request is not None and message is not None and request < message:
            yield Finding(
                code="small-requests",
                severity=Severity.ERROR,
                subject=f"broker {node_id}",
                seen=f"{_LARGEST_REQUEST} is {request:,}, and {_LARGEST_MESSAGE} is {message:,}",
                means="The broker ends connections that send a message of the size it allows.",
                mends=f"Set {_LARGEST_REQUEST} to some times {_LARGEST_MESSAGE}.",
            )


def session_bounds(seen: Observations) -> Iterator[Finding]:
    """Find brokers that refuse the session time-outs which consumers ask for by default."""
    for node_id, settings in seen.settings.items():
        longest, shortest = (
            number_of(settings, name) for name in (_LONGEST_SESSION, _SHORTEST_SESSION)
        )
        if (longest is not None and longest < max(_SESSIONS_MS)) or (
            shortest is not None and shortest > min(_SESSIONS_MS)
        ):
            yield Finding(
                code="session-bounds",
                severity=Severity.WARNING,
                subject=f"broker {node_id}",
                seen=f"sessions may last from {shortest} to {longest} ms "
                f"({_SHORTEST_SESSION}, {_LONGEST_SESSION})",
                means="Consumers ask for 45 s, older ones for 10 s, unless they are set otherwise, "
                "and are refused with INVALID_SESSION_TIMEOUT.",
                mends="Let the bounds include both, or set session.timeout.ms of every consumer.",
            )


def slow_first_rebalance(seen: Observations) -> Iterator[Finding]:
    """Find brokers that let the first consumer of a group wait: longer than Kafka does, or as long
    in a cluster of one broker, which is rarely one with many consumers.
    """
    is_single = seen.cluster is not None and len(seen.cluster.broker_ids) == 1
    for value, node_ids in _numbers(seen, _FIRST_REBALANCE).items():
        if value > _KAFKAS_DELAY_MS or (is_single and value == _KAFKAS_DELAY_MS):
            yield Finding(
                code="slow-first-rebalance",
                severity=Severity.NOTE,
                subject=_brokers(node_ids),
                seen=f"{_FIRST_REBALANCE} is {value:,}",
                means=f"The first consumer of a group gets nothing for {value / 1000:g} s, and "
                "more if others join meanwhile; tests seem to hang.",
                mends=f"For tests, set {_FIRST_REBALANCE}=0.",
            )


def unclean_elections(seen: Observations) -> Iterator[Finding]:
    """Find clusters that rather lose records than wait for a replica in sync."""
    if seen.cluster is None or len(seen.cluster.broker_ids) == 1:
        return
    node_ids = [n for n, each in seen.settings.items() if each.get(_UNCLEAN) == "true"]
    if node_ids:
        yield Finding(
            code="unclean-elections",
            severity=Severity.WARNING,
            subject=_brokers(node_ids),
            seen=f"{_UNCLEAN} is true",
            means="If all replicas in sync are away, another one leads, and records that were "
            "acknowledged are gone.",
            mends=f"Set {_UNCLEAN}=false, unless that is wanted.",
        )


def no_topics_on_use(seen: Observations) -> Iterator[Finding]:
    """Find brokers that make no topics at their first use."""
    node_ids = [n for n, each in seen.settings.items() if each.get(_AUTO_CREATE) == "false"]
    if node_ids:
        yield Finding(
            code="no-topics-on-use",
            severity=Severity.NOTE,
            subject=_brokers(node_ids),
            seen=f"{_AUTO_CREATE} is false",
            means="A producer of a topic that is not there gets UNKNOWN_TOPIC_OR_PARTITION, and "
            "many clients only say so after a minute.",
            mends=f"Make topics before they are used, or set {_AUTO_CREATE}=true.",
        )


def different_brokers(seen: Observations) -> Iterator[Finding]:
    """Find settings of which all brokers should have the same value, and do not."""
    for name in _ALIKE:
        by_value: defaultdict[str, list[int]] = defaultdict(list)
        for node_id, settings in seen.settings.items():
            if name in settings:
                by_value[settings[name]].append(node_id)
        if len(by_value) > 1:
            values = "; ".join(f"{value} at {_brokers(ids)}" for value, ids in by_value.items())
            yield Finding(
                code="different-settings",
                severity=Severity.WARNING,
                subject=name,
                seen=f"{name} differs: {values}",
                means="The same request succeeds or fails, depending on the broker that gets it.",
                mends=f"Give {name} the same value in the settings of all brokers.",
            )


def _numbers(seen: Observations, name: str) -> dict[int, list[int]]:
    """Return the brokers by value of a setting, for those that say it."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for node_id, settings in seen.settings.items():
        value = number_of(settings, name)
        if value is not None:
            found[value].append(node_id)
    return dict(found)


def _brokers(node_ids: list[int]) -> str:
    return f"broker{'s' if len(node_ids) > 1 else ''} {named(node_ids)}"


def _are(number: int) -> str:
    return f"{'is' if number == 1 else 'are'} {counted(number, 'broker')}"
