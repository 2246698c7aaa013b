"""ShareGroupConfig: share groups (KIP-932).

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class ShareGroupConfig(ConfigGroup):
    """Share groups (KIP-932)."""

    group_share_enable: bool = define(
        False, "Serve share groups.", support="not yet", internal=True
    )
    group_share_delivery_count_limit: int = define(
        5,
        "Deliveries of a record before it is given up.",
        at_least=2,
        at_most=10,
        support="not yet",
    )
    group_share_max_groups: int = define(
        10,
        "Share groups the broker serves.",
        type=ConfigType.SHORT,
        at_least=1,
        at_most=100,
        support="not yet",
    )
    group_share_max_size: int = define(
        200,
        "Members a share group may have.",
        type=ConfigType.SHORT,
        at_least=10,
        at_most=1000,
        support="not yet",
    )
    group_share_partition_max_record_locks: int = define(
        200,
        "Records of a partition locked at once.",
        at_least=100,
        at_most=10_000,
        support="not yet",
    )
    group_share_session_timeout_ms: int = define(
        45_000, "Session time limit of a member.", at_least=1, support="not yet"
    )
    group_share_min_session_timeout_ms: int = define(
        45_000, "Lower bound of that limit.", at_least=1, support="not yet"
    )
    group_share_max_session_timeout_ms: int = define(
        60_000, "Upper bound of that limit.", at_least=1, support="not yet"
    )
    group_share_heartbeat_interval_ms: int = define(
        5000, "Heartbeat interval of a member.", at_least=1, support="not yet"
    )
    group_share_min_heartbeat_interval_ms: int = define(
        5000, "Lower bound of that interval.", at_least=1, support="not yet"
    )
    group_share_max_heartbeat_interval_ms: int = define(
        15_000, "Upper bound of that interval.", at_least=1, support="not yet"
    )
    group_share_record_lock_duration_ms: int = define(
        30_000,
        "How long a member may hold a record.",
        at_least=1000,
        at_most=60_000,
        support="not yet",
    )
    group_share_min_record_lock_duration_ms: int = define(
        15_000, "Lower bound of that time.", at_least=1000, at_most=30_000, support="not yet"
    )
    group_share_max_record_lock_duration_ms: int = define(
        60_000, "Upper bound of that time.", at_least=30_000, at_most=3_600_000, support="not yet"
    )
