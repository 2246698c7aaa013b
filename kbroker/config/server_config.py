"""ServerConfig: the broker's identity, topic administration and orderly shutdown."""

from __future__ import annotations

from kbroker.config.config_checks import kafka_version
from kbroker.config.config_def import ConfigGroup, Long, config_group, define


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
    auto_create_topics_enable: bool = define(
        True, "Create a topic when a client first asks for it.", importance="high"
    )
    delete_topic_enable: bool = define(True, "Allow topics to be deleted.", importance="high")
    controlled_shutdown_enable: bool = define(True, "Hand leadership over before the broker stops.")
    controlled_shutdown_max_retries: int = define(3, "Attempts to hand leadership over.")
    controlled_shutdown_retry_backoff_ms: Long = define(5000, "Wait between these attempts.")
    inter_broker_protocol_version: str = define(
        "3.9-IV0",
        "Version that brokers speak among themselves; below 3.0 topics may have old formats, below "
        "2.7 leaders write in-sync replicas into the tree themselves.",
        check=kafka_version,
    )
