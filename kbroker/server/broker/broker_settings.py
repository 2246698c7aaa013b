"""The settings in force on this broker: those of its start, overridden by the dynamic ones of the
cluster, the broker and each topic; and who is called when they change.

Logs ask for a topic's settings synchronously, so they are computed once and kept until something
changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.stored_passwords import StoredPasswords
from kbroker.config.dynamic_checks import is_fixed
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.message_format import ignored_format_warning
from kbroker.config.topic_config import TopicConfig, sound_overrides
from kbroker.controller.event_handlers.state_changes import UNCLEAN_SETTING
from kbroker.errors import ConfigError
from kbroker.log.manager.log_manager import LogManager
from kbroker.model import TopicPartition
from kbroker.replication.replication_quota import ReplicationQuotas
from kbroker.zk import zk_paths
from kbroker.zk.zk_paths import DEFAULT_ENTITY

_log = logging.getLogger(__name__)

UncleanListener = Callable[[str | None], None]  # called with a topic, or None for the default


class BrokerSettings:
    """The settings of one broker. Owned by the event loop."""

    def __init__(
        self, config: KafkaConfig, topic_overrides: Callable[[str], Mapping[str, str]]
    ) -> None:
        """`topic_overrides` returns a topic's own settings as last read from the tree."""
        self.config = config
        self._start_config = config
        self._topic_overrides = topic_overrides
        self._passwords = StoredPasswords(config.security)
        self._dynamic: dict[str, Mapping[str, str]] = {}
        self._topics: dict[str, TopicConfig] = {}
        self._plain: TopicConfig | None = None

    def of_topic(self, topic: str) -> TopicConfig:
        """The settings in force for a topic."""
        known = self._topics.get(topic)
        if known is not None:
            return known
        overrides = self._topic_overrides(topic)
        if overrides:
            settings = self._topics[topic] = self._in_force(overrides, topic)
            return settings
        if self._plain is None:
            self._plain = self._in_force({})
        return self._plain

    def _in_force(self, overrides: Mapping[str, str], topic: str = "") -> TopicConfig:
        sound, errors = sound_overrides(overrides)
        for error in errors:
            _log.error("ignoring a setting of topic %s: %s", topic, error)
        settings = TopicConfig.from_overrides(self.config, sound)
        protocol = self.config.server.inter_broker_protocol_version
        name = "message.format.version"
        if name in sound:
            warning = ignored_format_warning(name, sound[name], protocol, topic)
            if warning:
                _log.warning("%s", warning)
        return settings.with_format_in_force(protocol)

    def topic_changed(self, topic: str) -> None:
        """Forget a topic's settings, which were read again."""
        self._topics.pop(topic, None)

    def broker_changed(self, entity: str, overrides: Mapping[str, str]) -> None:
        """Take over the dynamic settings of a broker or of the cluster."""
        if entity not in (DEFAULT_ENTITY, str(self._start_config.server.broker_id)):
            return
        readable, unreadable = self._passwords.readable(overrides)
        for name, reason in unreadable.items():
            _log.error("ignoring the dynamic setting %s: %s", name, reason)
        for name in [name for name, text in readable.items() if is_fixed(name, text)]:
            _log.error("ignoring the dynamic setting %s: it counts at the start alone", name)
            del readable[name]
        self._dynamic[entity] = readable
        own = self._dynamic.get(str(self._start_config.server.broker_id), {})
        try:
            self.config = self._fitting(self._dynamic.get(DEFAULT_ENTITY, {}), own)
        except ConfigError as error:
            _log.error("the dynamic settings stay as they were: %s", error)
            return
        self._topics.clear()
        self._plain = None

    def _fitting(self, cluster: Mapping[str, str], own: Mapping[str, str]) -> KafkaConfig:
        """The settings in force; one that does not fit this broker's leaves the others so. Raises
        ConfigError if several do not.
        """
        start = self._start_config
        try:
            return start.with_dynamic(cluster, own)
        except ConfigError as error:
            for name in {**cluster, **own}:
                others = [{k: v for k, v in each.items() if k != name} for each in (cluster, own)]
                with suppress(ConfigError):
                    config = start.with_dynamic(*others)
                    _log.error("ignoring the dynamic setting %s: %s", name, error)
                    return config
            raise


class SettingsUpdates:
    """Passes changed dynamic settings on to logs, quotas and fetchers. Owned by the event loop."""

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
        """Call `enable` when unclean elections become allowed, for a topic or by default."""
        self._enable_unclean_elections = enable

    def on_fetcher_count(self, share_out: Callable[[], None]) -> None:
        """Call `share_out` when `num.replica.fetchers` has changed."""
        self._share_partitions_out = share_out

    async def load_topics(self, topics: Iterable[TopicPartition]) -> None:
        """Read the settings of topics whose first log is about to be made."""
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
