"""GroupConfig: consumer groups and their offsets.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_checks import migration_policy
from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import MAX_INT, ConfigType


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
        ("classic",), "Group protocols served.", list_of=("consumer", "classic", "share", "unknown")
    )
    group_coordinator_threads: int = define(
        1, "Threads of Kafka's newer group coordinator.", at_least=1, support="accepted"
    )
    group_coordinator_append_linger_ms: int = define(
        10, "Wait of Kafka's newer coordinator to gather writes.", at_least=0, support="accepted"
    )
    group_coordinator_new_enable: bool = define(
        False, "Choose Kafka's newer group coordinator.", support="accepted", internal=True
    )
    group_consumer_session_timeout_ms: int = define(
        45_000,
        "Session time limit of members of the consumer protocol.",
        at_least=1,
        support="not yet",
    )
    group_consumer_min_session_timeout_ms: int = define(
        45_000, "Lower bound of that limit.", at_least=1, support="not yet"
    )
    group_consumer_max_session_timeout_ms: int = define(
        60_000, "Upper bound of that limit.", at_least=1, support="not yet"
    )
    group_consumer_heartbeat_interval_ms: int = define(
        5000,
        "Heartbeat interval of members of the consumer protocol.",
        at_least=1,
        support="not yet",
    )
    group_consumer_min_heartbeat_interval_ms: int = define(
        5000, "Lower bound of that interval.", at_least=1, support="not yet"
    )
    group_consumer_max_heartbeat_interval_ms: int = define(
        15_000, "Upper bound of that interval.", at_least=1, support="not yet"
    )
    group_consumer_max_size: int = define(
        MAX_INT, "Members a group of the consumer protocol may have.", at_least=1, support="not yet"
    )
    group_consumer_assignors: tuple[str, ...] = define(
        (
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
            "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        ),
        "Server-side assignors, the first is the default.",
        support="not yet",
    )
    group_consumer_migration_policy: str = define(
        "disabled",
        "Which way groups may change between the protocols.",
        check=migration_policy,
        support="not yet",
        internal=True,
    )
    offset_metadata_max_bytes: int = define(
        4096, "Largest text stored with a committed offset.", importance="high"
    )
    offsets_load_buffer_size: int = define(
        5_242_880, "Bytes read at once while offsets are loaded.", at_least=1, importance="high"
    )
    offsets_topic_replication_factor: int = define(
        3, "Replicas of __consumer_offsets.", type=ConfigType.SHORT, at_least=1, importance="high"
    )
    offsets_topic_num_partitions: int = define(
        50, "Partitions of __consumer_offsets; fixed once it exists.", at_least=1, importance="high"
    )
    offsets_topic_segment_bytes: int = define(
        104_857_600, "Segment size of __consumer_offsets.", at_least=1, importance="high"
    )
    offsets_topic_compression_codec: int = define(
        0,
        "Codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        importance="high",
        support="not yet",
    )
    offsets_retention_minutes: int = define(
        10_080, "Offsets of an empty group are kept this long.", at_least=1, importance="high"
    )
    offsets_retention_check_interval_ms: int = define(
        600_000,
        "How often expired offsets are searched for.",
        type=ConfigType.LONG,
        at_least=1,
        importance="high",
    )
    offsets_commit_timeout_ms: int = define(
        5000, "How long a commit may wait for its replicas.", at_least=1, importance="high"
    )
    offsets_commit_required_acks: int = define(
        -1,
        "Acks a commit needs; -1 is all in-sync replicas.",
        type=ConfigType.SHORT,
        importance="high",
    )
