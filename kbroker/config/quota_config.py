"""QuotaConfig: how quotas are measured."""

from __future__ import annotations

from kbroker.config.config_def import ConfigGroup, Facts, JavaClass, config_group, define


@config_group
class QuotaConfig(ConfigGroup):
    """How quotas are measured."""

    common = Facts(importance="low")

    client_quota_callback_class: JavaClass | None = define(
        None,
        "Class of Python that decides how much clients may use, as module:name, see Security.",
    )
    quota_window_num: int = define(11, "Windows kept for client quotas.", at_least=1)
    quota_window_size_seconds: int = define(1, "Length of a client quota window.", at_least=1)
    replication_quota_window_num: int = define(
        11, "Windows kept for replication quotas.", at_least=1
    )
    replication_quota_window_size_seconds: int = define(
        1, "Length of a replication quota window.", at_least=1
    )
    alter_log_dirs_replication_quota_window_num: int = define(
        11, "Windows kept for moves between data directories.", at_least=1
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = define(
        1, "Length of a window for these moves.", at_least=1
    )
    controller_quota_window_num: int = define(
        11, "Windows kept for controller mutation quotas.", at_least=1
    )
    controller_quota_window_size_seconds: int = define(
        1, "Length of a controller mutation window.", at_least=1
    )
