"""The settings in force on this broker: those of its start, under the dynamic ones of the cluster,
the broker and each topic.

Logs ask for a topic's settings synchronously, so they are worked out here once and kept until
something changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.message_format import ignored_format_warning
from kbroker.config.topic_config import TopicConfig, sound_overrides
from kbroker.errors import ConfigError
from kbroker.zk.zk_paths import DEFAULT_ENTITY

_log = logging.getLogger(__name__)


class BrokerSettings:
    """Owned by the event loop."""

    def __init__(
        self, config: KafkaConfig, topic_overrides: Callable[[str], Mapping[str, str]]
    ) -> None:
        """`topic_overrides` returns a topic's own settings as last read from the tree."""
        self.config = config
        self._start_config = config
        self._topic_overrides = topic_overrides
        self._dynamic: dict[str, Mapping[str, str]] = {}
        self._topics: dict[str, TopicConfig] = {}
        self._plain: TopicConfig | None = None

    def of_topic(self, topic: str) -> TopicConfig:
        """The settings of a topic."""
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
        """The topic's own settings were read again."""
        self._topics.pop(topic, None)

    def broker_changed(self, entity: str, overrides: Mapping[str, str]) -> None:
        """Dynamic settings of a broker, or of the cluster, are now these."""
        if entity not in (DEFAULT_ENTITY, str(self._start_config.server.broker_id)):
            return
        self._dynamic[entity] = overrides
        own = self._dynamic.get(str(self._start_config.server.broker_id), {})
        try:
            self.config = self._start_config.with_dynamic(
                self._dynamic.get(DEFAULT_ENTITY, {}), own
            )
        except ConfigError as error:
            _log.error("ignoring a dynamic setting: %s", error)
            return
        self._topics.clear()
        self._plain = None
