"""ServerConfig: the broker's identity, topic administration and orderly shutdown.

Names, types, bounds and defaults are Kafka 3.9's; `support` says whether a setting is acted on.
"""

from __future__ import annotations

from kbroker.config.config_checks import kafka_version
from kbroker.config.config_def import ConfigGroup, config_group, define
from kbroker.config.config_values import MAX_LONG, ConfigType


@config_group
class ServerConfig(ConfigGroup):
    """The broker's identity, topic administration and orderly shutdown."""

    broker_id: int = define(-1, "Number of this broker; -1 generates one.", importance="high")
    node_id: int = define(
        -1, "KRaft's name of broker.id; used when broker.id is not set.", importance="high"
    )
    broker_rack: str | None = define(
        None, "Rack of this broker; clients see it, and replica placement uses it."
    )
    broker_id_generation_enable: bool = define(True, "Generate an id when none is set.")
    reserved_broker_max_id: int = define(1000, "Generated ids start above this.", at_least=0)
    background_threads: int = define(
        10,
        "Threads for background work in Kafka.",
        at_least=1,
        importance="high",
        dynamic="cluster-wide",
        support="accepted",
    )
    auto_create_topics_enable: bool = define(
        True, "Create a topic when a client first asks for it.", importance="high"
    )
    delete_topic_enable: bool = define(True, "Allow topics to be deleted.", importance="high")
    create_topic_policy_class_name: str | None = define(
        None,
        "Class that may refuse a new topic.",
        type=ConfigType.CLASS,
        importance="low",
        support="not yet",
    )
    alter_config_policy_class_name: str | None = define(
        None,
        "Class that may refuse a configuration change.",
        type=ConfigType.CLASS,
        importance="low",
        support="not yet",
    )
    alter_config_policy_kraft_compatibility_enable: bool = define(
        False,
        "Give the policy only the changed keys, as KRaft does.",
        importance="low",
        support="not yet",
    )
    controlled_shutdown_enable: bool = define(True, "Hand leadership over before the broker stops.")
    controlled_shutdown_max_retries: int = define(3, "Attempts to hand leadership over.")
    controlled_shutdown_retry_backoff_ms: int = define(
        5000, "Wait between these attempts.", type=ConfigType.LONG
    )
    inter_broker_protocol_version: str = define(
        "3.9-IV0",
        "Version that brokers speak among themselves; below 3.0 topics may have old formats, below "
        "2.7 leaders write in-sync replicas into the tree themselves.",
        check=kafka_version,
    )
    eligible_leader_replicas_enable: bool = define(
        False, "Keep eligible leader replicas (KIP-966).", importance="high", support="not yet"
    )
    server_max_startup_time_ms: int = define(
        MAX_LONG,
        "Longest time the start may take.",
        type=ConfigType.LONG,
        at_least=0,
        support="accepted",
        internal=True,
    )
    unstable_api_versions_enable: bool = define(
        False,
        "Offer API versions still in development.",
        importance="high",
        support="not yet",
        internal=True,
    )
    unstable_feature_versions_enable: bool = define(
        False,
        "Offer feature levels still in development.",
        importance="high",
        support="not yet",
        internal=True,
    )
