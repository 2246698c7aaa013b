"""Carries changes of dynamic settings to those who work with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.controller.event_handlers.state_changes import UNCLEAN_SETTING
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.replication.replication_quota import ReplicationQuotas
from kbroker.server.broker.broker_settings import BrokerSettings
from kbroker.zk import zk_paths

UncleanListener = Callable[[str | None], None]  # called with a topic, or None for the default


class SettingsUpdates:
    """Between the manager of dynamic settings and the logs. Owned by the event loop."""

    def __init__(
        self,
        dynamic_configs: DynamicConfigManager,
        settings: BrokerSettings,
        logs: LogManager,
        quotas: ReplicationQuotas,
    ) -> None:
        self._enable_unclean_elections: UncleanListener = lambda _: None
        self._share_partitions_out: Callable[[], None] = lambda: None
        self._dynamic_configs = dynamic_configs
        self._settings = settings
        self._logs = logs
        self._quotas = quotas
        dynamic_configs.add_handler(zk_paths.TOPIC_CONFIGS, self._on_topic_config)
        dynamic_configs.add_handler(zk_paths.BROKER_CONFIGS, self._on_broker_config)

    def on_unclean_elections(self, enable: UncleanListener) -> None:
        """Call `enable` when they become allowed, for a topic or by default."""
        self._enable_unclean_elections = enable

    def on_fetcher_count(self, share_out: Callable[[], None]) -> None:
        """Call `share_out` when `num.replica.fetchers` has changed."""
        self._share_partitions_out = share_out

    async def load_topics(self, topics: Iterable[TopicPartition]) -> None:
        """Read the overrides of topics whose first log is about to be made."""
        new = {tp.topic for tp in topics if self._logs.get_log(tp) is None}
        await self._dynamic_configs.load_topics(new)
        for topic in new:
            self._settings.topic_changed(topic)

    def _on_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        if overrides.get(UNCLEAN_SETTING, "").strip().lower() == "true":
            self._enable_unclean_elections(topic)
        self._settings.topic_changed(topic)
        self._logs.update_topic_config(topic, self._settings.of_topic(topic))

    def _on_broker_config(self, entity: str, overrides: Mapping[str, str]) -> None:
        before = self._settings.config.replication
        self._settings.broker_changed(entity, overrides)
        after = self._settings.config.replication
        if after.unclean_leader_election_enable and not before.unclean_leader_election_enable:
            self._enable_unclean_elections(None)
        if after.num_replica_fetchers != before.num_replica_fetchers:
            self._share_partitions_out()
        for log in (*self._logs.all_logs(), *self._logs.all_futures()):
            log.update_config(self._settings.of_topic(log.topic_partition.topic))
        config = self._settings.config
        self._quotas.configure(config.dynamic_default, config.dynamic_broker)
