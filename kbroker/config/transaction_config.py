"""TransactionConfig: transactions and their state topic."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Short, config_group, define


@config_group
class TransactionConfig(ConfigGroup):
    """Transactions and their state topic."""

    transactional_id_expiration_ms: int = define(
        604_800_000,
        "Forget a transactional id unused for this long.",
        at_least=1,
        importance="high",
    )
    transaction_max_timeout_ms: int = define(
        900_000, "Longest transaction a producer may ask for.", at_least=1, importance="high"
    )
    transaction_state_log_replication_factor: Short = define(
        3, "Replicas of __transaction_state.", at_least=1, importance="high"
    )
    transaction_state_log_min_isr: int = define(
        2, "min.insync.replicas of __transaction_state.", at_least=1, importance="high"
    )
    transaction_state_log_num_partitions: int = define(
        50,
        "Partitions of __transaction_state; fixed once it exists.",
        at_least=1,
        importance="high",
    )
    transaction_state_log_segment_bytes: int = define(
        104_857_600, "Segment size of __transaction_state.", at_least=1, importance="high"
    )
    transaction_state_log_load_buffer_size: int = define(
        5_242_880,
        "Bytes read at once while transactions are loaded.",
        at_least=1,
        importance="high",
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = define(
        10_000, "How often transactions out of time are aborted.", at_least=1, importance="low"
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = define(
        3_600_000, "How often expired transactional ids are removed.", at_least=1, importance="low"
    )
    transaction_partition_verification_enable: bool = define(
        True,
        "Check that a partition belongs to the transaction before appending.",
        importance="low",
        dynamic="cluster-wide",
    )
