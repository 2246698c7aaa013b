"""QuotaConfig: how quotas are measured.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import ConfigType


@config_group
class QuotaConfig(ConfigGroup):
    """How quotas are measured."""

    quota_window_num: int = define(
        11, "Windows kept for client quotas.", at_least=1, importance="low", support="not yet"
    )
    quota_window_size_seconds: int = define(
        1, "Length of a client quota window.", at_least=1, importance="low", support="not yet"
    )
    replication_quota_window_num: int = define(
        11, "Windows kept for replication quotas.", at_least=1, importance="low"
    )
    replication_quota_window_size_seconds: int = define(
        1, "Length of a replication quota window.", at_least=1, importance="low"
    )
    alter_log_dirs_replication_quota_window_num: int = define(
        11, "Windows kept for moves between data directories.", at_least=1, importance="low"
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = define(
        1, "Length of a window for these moves.", at_least=1, importance="low"
    )
    controller_quota_window_num: int = define(
        11,
        "Windows kept for controller mutation quotas.",
        at_least=1,
        importance="low",
        support="not yet",
    )
    controller_quota_window_size_seconds: int = define(
        1,
        "Length of a controller mutation window.",
        at_least=1,
        importance="low",
        support="not yet",
    )
    client_quota_callback_class: str | None = define(
        None,
        "Class that decides on client quotas.",
        type=ConfigType.CLASS,
        importance="low",
        support="not yet",
    )
