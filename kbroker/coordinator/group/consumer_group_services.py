"""The services of a broker for its consumer groups, known before there are any. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.coordinator.consumer_group.step import GroupSettings, Match

_LARGE_TARGET = 1_000  # partitions and members, some milliseconds
_LARGE_WRITE = 1_000  # records and what is in them, some milliseconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ConsumerGroupServices:
    """Services for groups of the consumer protocol (KIP-848). A target of that many partitions and
    members is computed beside the loop, and so are records of that many topics and partitions.
    """

    settings_of: Callable[[str], GroupSettings]  # by group id
    max_size: int
    assignors: Sequence[str]  # as `group.consumer.assignors` names them
    migration_policy: str = "disabled"  # as `group.consumer.migration.policy` names it
    large_target: int = _LARGE_TARGET
    large_write: int = _LARGE_WRITE
    pattern_refresh_ms: int = 600_000
    match: Match | None = None  # None for that of `timely_matches`
