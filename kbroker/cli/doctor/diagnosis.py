"""Diagnosis: every rule, and the findings of all of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kbroker.cli.doctor.finding import Finding, Severity
from kbroker.cli.doctor.observations import Observations
from kbroker.cli.doctor.rules import advertised, doors, partitions, settings, topics, trials

Rule = Callable[[Observations], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    doors.closed_doors,
    doors.half_reached_names,
    doors.mixed_clusters,
    advertised.closed_addresses,
    advertised.loopback_addresses,
    advertised.shared_addresses,
    advertised.other_clusters,
    advertised.other_brokers,
    partitions.missing_controller,
    partitions.leaderless,
    partitions.too_few_in_sync,
    partitions.under_replicated,
    partitions.offline_directories,
    partitions.full_directories,
    topics.internal_topics,
    topics.minimum_equals_replicas,
    topics.left_behind,
    settings.too_many_replicas,
    settings.minimum_above_replicas,
    settings.small_messages,
    settings.session_bounds,
    settings.slow_first_rebalance,
    settings.unclean_elections,
    settings.no_topics_on_use,
    settings.different_brokers,
    trials.unwritten_records,
    trials.unjoined_group,
    trials.clocks,
    trials.left_topic,
)
_WORST_FIRST = tuple(Severity)


def diagnose(seen: Observations) -> list[Finding]:
    """Return what every rule finds, the worst first and else in the order of the rules."""
    found = [finding for rule in RULES for finding in rule(seen)]
    return sorted(found, key=lambda finding: _WORST_FIRST.index(finding.severity))
