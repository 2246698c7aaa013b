"""ShareGroupConfig: share groups (KIP-932)."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Facts, Short, config_group, define


@config_group
class ShareGroupConfig(ConfigGroup):
    """Share groups of KIP-932."""

    common = Facts(support="not yet")

    group_share_enable: bool = define(False, "Serve share groups.", internal=True)
    group_share_delivery_count_limit: int = define(
        5, "Deliveries of a record before it is given up.", at_least=2, at_most=10
    )
    group_share_max_groups: Short = define(
        10, "Share groups the broker serves.", at_least=1, at_most=100
    )
    group_share_max_size: Short = define(
        200, "Members a share group may have.", at_least=10, at_most=1000
    )
    group_share_partition_max_record_locks: int = define(
        200, "Records of a partition locked at once.", at_least=100, at_most=10_000
    )
    group_share_session_timeout_ms: int = define(
        45_000, "Session time limit of a member.", at_least=1
    )
    group_share_min_session_timeout_ms: int = define(
        45_000, "Lower bound of that limit.", at_least=1
    )
    group_share_max_session_timeout_ms: int = define(
        60_000, "Upper bound of that limit.", at_least=1
    )
    group_share_heartbeat_interval_ms: int = define(
        5000, "Heartbeat interval of a member.", at_least=1
    )
    group_share_min_heartbeat_interval_ms: int = define(
        5000, "Lower bound of that interval.", at_least=1
    )
    group_share_max_heartbeat_interval_ms: int = define(
        15_000, "Upper bound of that interval.", at_least=1
    )
    group_share_record_lock_duration_ms: int = define(
        30_000, "How long a member may hold a record.", at_least=1000, at_most=60_000
    )
    group_share_min_record_lock_duration_ms: int = define(
        15_000, "Lower bound of that time.", at_least=1000, at_most=30_000
    )
    group_share_max_record_lock_duration_ms: int = define(
        60_000, "Upper bound of that time.", at_least=30_000, at_most=3_600_000
    )
