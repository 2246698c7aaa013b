"""The health of a broker: its checks by name, the sentence for each thing that is wrong, and the
JSON that says so.

Pure. `/readyz`, `kbroker health` and what else speaks of a broker's health use these words.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kbroker.model import TopicPartition

RECOVERY: Final = "recovery"
MEMBERSHIP: Final = "membership"
OFFLINE_PARTITIONS: Final = "offline partitions"
DISKS: Final = "disks"
STOPPING: Final = "stopping"
CHECKS: Final = (RECOVERY, MEMBERSHIP, OFFLINE_PARTITIONS, DISKS, STOPPING)

NO_LEADER: Final = "has no leader"
NO_CONTROLLER: Final = "the cluster has no controller"
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at; `problem` is a sentence, None if all is well."""

    name: str
    problem: str | None = None


def leaderless(partition: TopicPartition) -> str:
    """The sentence about one partition that nobody leads.

    >>> leaderless(TopicPartition("orders", 0))
    'orders-0 has no leader'
    """
    return f"{partition} {NO_LEADER}"


def all_leaderless(partitions: Sequence[TopicPartition]) -> str | None:
    """The sentence about several: some by name, and how many more; None if there are none."""
    if not partitions:
        return None
    named = "; ".join(map(leaderless, partitions[:_MOST_NAMED]))
    more = len(partitions) - _MOST_NAMED
    return f"{named}; and {more} more" if more > 0 else named


def readiness(checks: Sequence[Check], excluded: Collection[str] = ()) -> tuple[bool, Any]:
    """Whether a broker is ready, and the value that is sent as JSON. Checks that are `excluded` are
    shown and do not count.
    """
    is_ready = all(check.problem is None or check.name in excluded for check in checks)
    rows = [_row(check, excluded) for check in checks]
    return is_ready, {"ready": is_ready, "checks": rows}


def without_details(value: Any) -> Any:
    """The same value without sentences, for those who may not know names of topics and disks."""
    rows = [{k: v for k, v in row.items() if k != "problem"} for row in value["checks"]]
    return {**value, "checks": rows}


def problems_in(value: Any) -> list[str]:
    """List the problems that such a value names, one sentence for each check.

    Raises KeyError, TypeError or AttributeError for a value that is not of this form.
    """
    return [
        f"{row['name']}: {row.get('problem', 'not well')}"
        for row in value["checks"]
        if not row["ok"] and not row.get("excluded", False)
    ]


def _row(check: Check, excluded: Collection[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"name": check.name, "ok": check.problem is None}
    if check.name in excluded:
        row["excluded"] = True
    if check.problem is not None:
        row["problem"] = check.problem
    return row
