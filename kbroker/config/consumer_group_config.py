"""ConsumerGroupConfig: consumer groups of KIP-848, and the bounds of what each may set for itself.

Law: names, types, defaults, what is shown and what must fit together are those of Kafka 4.3, as 3.9
does not serve such groups in earnest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kbroker.config.config_checks import migration_policy
from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import MAX_INT
from kbroker.errors import ConfigError

_SESSION, _HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
_ASSIGNMENT = "assignment.interval.ms"
_USUAL_ASSIGNORS = ("uniform", "range")


class Bounds(NamedTuple):
    """The lowest and highest value that a group may set, both inclusive."""

    lowest: int
    highest: int

    def nearest(self, value: int) -> int:
        """The value itself, or the bound that it lies beyond."""
        return max(self.lowest, min(value, self.highest))


@config_group
class ConsumerGroupConfig(ConfigGroup):
    """Consumer groups of KIP-848."""

    group_consumer_session_timeout_ms: int = define(
        45_000, "Session time limit of members of the consumer protocol.", at_least=1
    )
    group_consumer_min_session_timeout_ms: int = define(
        45_000, "Lower bound of that limit.", at_least=1
    )
    group_consumer_max_session_timeout_ms: int = define(
        60_000, "Upper bound of that limit.", at_least=1
    )
    group_consumer_heartbeat_interval_ms: int = define(
        5000, "Heartbeat interval of members of the consumer protocol.", at_least=1
    )
    group_consumer_min_heartbeat_interval_ms: int = define(
        5000, "Lower bound of that interval.", at_least=1
    )
    group_consumer_max_heartbeat_interval_ms: int = define(
        15_000, "Upper bound of that interval.", at_least=1
    )
    group_consumer_max_size: int = define(
        MAX_INT, "Members a group of the consumer protocol may have.", at_least=1
    )
    group_consumer_assignors: tuple[str, ...] = define(
        _USUAL_ASSIGNORS, "uniform, range, or Python as module:name; the first is the default."
    )
    group_consumer_migration_policy: str = define(
        "bidirectional",
        "Which way groups may change: disabled, upgrade (to the new), downgrade, bidirectional.",
        check=migration_policy,
    )
    group_consumer_assignment_interval_ms: int = define(
        1000,
        "Shortest time between two assignments of a group of the consumer protocol.",
        at_least=0,
        dynamic="cluster-wide",
    )
    group_consumer_min_assignment_interval_ms: int = define(
        0, "Lower bound of that time.", at_least=0
    )
    group_consumer_max_assignment_interval_ms: int = define(
        15_000, "Upper bound of that time.", at_least=0
    )
    group_consumer_regex_refresh_interval_ms: int = define(
        600_000,
        "How often the topics that a group's pattern matches are looked for again.",
        at_least=10_000,
        internal=True,
    )

    @property
    def has_usual_assignors(self) -> bool:
        """Whether the assignors are those of the default, which can be had without a look."""
        return self.group_consumer_assignors == _USUAL_ASSIGNORS

    @property
    def session_bounds(self) -> Bounds:
        """The session time limits that a group may choose."""
        return Bounds(
            self.group_consumer_min_session_timeout_ms, self.group_consumer_max_session_timeout_ms
        )

    @property
    def heartbeat_bounds(self) -> Bounds:
        """The heartbeat intervals that a group may choose."""
        return Bounds(
            self.group_consumer_min_heartbeat_interval_ms,
            self.group_consumer_max_heartbeat_interval_ms,
        )

    @property
    def assignment_bounds(self) -> Bounds:
        """The times between two assignments that a group may choose."""
        return Bounds(
            self.group_consumer_min_assignment_interval_ms,
            self.group_consumer_max_assignment_interval_ms,
        )

    def check(self) -> None:
        """Raises ConfigError for settings that do not fit together, with Kafka 4.3's sentences."""
        for refusal in self._refusals():
            raise ConfigError(refusal)

    def _refusals(self) -> Iterator[str]:
        session, heartbeat = (
            self.group_consumer_session_timeout_ms,
            self.group_consumer_heartbeat_interval_ms,
        )
        yield from _outside(_HEARTBEAT, heartbeat, self.heartbeat_bounds)
        yield from _outside(_SESSION, session, self.session_bounds)
        if heartbeat >= session:
            yield f"group.consumer.{_HEARTBEAT} must be less than group.consumer.{_SESSION}"
        assignment = self.group_consumer_assignment_interval_ms
        yield from _outside(_ASSIGNMENT, assignment, self.assignment_bounds)


def _outside(name: str, value: int, bounds: Bounds) -> Iterator[str]:
    """Say how a value lies outside its bounds, and whether these are the wrong way round."""
    own, lower, upper = (f"group.consumer.{infix}{name}" for infix in ("", "min.", "max."))
    if bounds.highest < bounds.lowest:
        yield f"{upper} must be greater than or equal to {lower}"
    if value < bounds.lowest:
        yield f"{own} must be greater than or equal to {lower}"
    if value > bounds.highest:
        yield f"{own} must be less than or equal to {upper}"
