"""GroupConfig: consumer groups and their offsets; those of KIP-848 have settings of their own."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Long, Short, config_group, define
from kbroker.config.config_values import MAX_INT


@config_group
class GroupConfig(ConfigGroup):
    """Consumer groups and their offsets."""

    group_min_session_timeout_ms: int = define(
        6000, "Shortest session time limit a member may ask for."
    )
    group_max_session_timeout_ms: int = define(
        1_800_000, "Longest session time limit a member may ask for."
    )
    group_initial_rebalance_delay_ms: int = define(
        3000, "Wait for more members before an empty group's first rebalance."
    )
    group_max_size: int = define(MAX_INT, "Members a group may have.", at_least=1)
    group_coordinator_rebalance_protocols: tuple[str, ...] = define(
        ("classic", "consumer"),  # as 4.3, which has streams too; 3.9 serves classic groups alone
        "Group protocols served; consumer ones also take group.version 1.",
        list_of=("consumer", "classic", "share", "streams", "unknown"),
    )
    offset_metadata_max_bytes: int = define(
        4096, "Largest text stored with a committed offset.", importance="high"
    )
    offsets_load_buffer_size: int = define(
        5_242_880, "Bytes read at once while offsets are loaded.", at_least=1, importance="high"
    )
    offsets_topic_replication_factor: Short = define(
        3, "Replicas of __consumer_offsets.", at_least=1, importance="high"
    )
    offsets_topic_num_partitions: int = define(
        50, "Partitions of __consumer_offsets; fixed once it exists.", at_least=1, importance="high"
    )
    offsets_topic_segment_bytes: int = define(
        104_857_600, "Segment size of __consumer_offsets.", at_least=1, importance="high"
    )
    offsets_retention_minutes: int = define(
        10_080, "Offsets of an empty group are kept this long.", at_least=1, importance="high"
    )
    offsets_retention_check_interval_ms: Long = define(
        600_000, "How often expired offsets are searched for.", at_least=1, importance="high"
    )
    offsets_commit_timeout_ms: int = define(
        5000, "How long a commit may wait for its replicas.", at_least=1, importance="high"
    )
    offsets_commit_required_acks: Short = define(
        -1, "Acks a commit needs; -1 is all in-sync replicas.", importance="high"
    )
