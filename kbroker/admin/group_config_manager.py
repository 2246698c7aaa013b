"""GroupConfigManager: the settings that count for each consumer group on this broker.

Law: an answer needs no reading: all groups with settings are read at the start, and again as they
change. A value that cannot count as it stands is reported once, when it is read, and stops nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.config.consumer_group_config import ConsumerGroupConfig
from kbroker.config.group_settings import (
    ConsumerGroupSettings,
    complaints,
    settings_in_force,
    sound_settings,
)
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import entity_name

_log = logging.getLogger(__name__)


class GroupConfigManager:
    """One per broker. Owned by the event loop."""

    def __init__(self, config: Callable[[], ConsumerGroupConfig]) -> None:
        """`config` gives the broker's settings in force, which change now and then."""
        self._config = config
        self._own: dict[str, Mapping[str, str]] = {}
        self._in_force: dict[str, ConsumerGroupSettings] = {}  # by group, "" for all others
        self._in_force_under: ConsumerGroupConfig | None = None  # the broker's settings

    def follow(self, dynamic_configs: DynamicConfigManager) -> None:
        """Hear of all groups with settings when these are read, and of their changes."""
        dynamic_configs.add_handler(zk_paths.GROUP_CONFIGS, self.group_changed)

    def group_changed(self, entity: str, overrides: Mapping[str, str]) -> None:
        """Take over what a group has set, all of it."""
        group_id = entity_name(entity)
        for line in complaints(group_id, self._config(), overrides):
            _log.error("%s", line)
        sound = sound_settings(overrides)
        if sound:
            self._own[group_id] = sound
        else:
            self._own.pop(group_id, None)
        self._in_force.pop(group_id, None)

    def of_group(self, group_id: str) -> ConsumerGroupSettings:
        """The values in force for a group; asked for at each of its heartbeats."""
        config = self._config()
        if config is not self._in_force_under:
            self._in_force, self._in_force_under = {}, config
        kept = group_id if group_id in self._own else ""
        found = self._in_force.get(kept)
        if found is None:
            found = settings_in_force(config, self._own.get(group_id, {}))
            self._in_force[kept] = found
        return found
