"""DynamicConfigManager: the listening side of dynamic settings. Keeps the overrides of topics that
this broker works with, and calls the handler of an entity type whenever one of its entities has
changed.

Law: a handler gets all overrides of the entity as they are now, never a difference, so that a
missed notification costs nothing. Handlers are called on the event loop, in the order of the
changes. A change is applied once it can be read, however long the tree stays away; after the loss
of a session everything is read again, as notifications may be gone. Overrides that cannot be read
leave in force what was known before.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from kbroker.clock import Clock
from kbroker.errors import ConfigError
from kbroker.model import TopicPartition
from kbroker.slices import slices
from kbroker.zk import zk_paths
from kbroker.zk.nodes.entity_configs import ZkEntityConfigs
from kbroker.zk.tree import TreeError, TreeUnavailableError
from kbroker.zk.zk_utils import ZkUtils
from kbroker.zk.zk_watchers import ChangeNotificationWatcher, RepeatedReading, on_new_session

_log = logging.getLogger(__name__)

_ROW_ENTITIES = 256  # read at a time: a few milliseconds

ConfigHandler = Callable[[str, Mapping[str, str]], None]  # (entity name, its overrides)


class DynamicConfigManager:
    """One per broker. Owned by the event loop.

    Entity types are `zk_paths.TOPIC_CONFIGS`, `BROKER_CONFIGS`, `CLIENT_CONFIGS`, `USER_CONFIGS`,
    `IP_CONFIGS`; the name of the cluster's default entity is `zk_paths.DEFAULT_ENTITY`, and that of
    a client id of one user is as in `ann/clients/app`.
    """

    def __init__(self, zk: ZkUtils, clock: Clock) -> None:
        self._tree = zk.tree
        self._stored = ZkEntityConfigs(zk)
        self._is_stale = False  # everything has to be read again
        self._handlers: dict[str, list[ConfigHandler]] = {}
        self._topics: dict[str, dict[str, str]] = {}
        self._known: dict[str, set[str]] = {}  # entities with overrides, by type
        self._reading = asyncio.Lock()  # one that began earlier must not end later
        self._watcher = ChangeNotificationWatcher(
            zk.tree, zk_paths.CONFIG_CHANGES, self._on_notification, clock
        )
        self._changed: deque[str] = deque()
        self._applying = RepeatedReading("changed settings", self._apply_all)

    def add_handler(self, entity_type: str, handler: ConfigHandler) -> None:
        """Call `handler` for each changed entity of a type; of all but topics also at `start`."""
        self._handlers.setdefault(entity_type, []).append(handler)

    async def start(self) -> None:
        """Follow changes.

        Then read the overrides of all topics and of what has handlers, and call the latter.
        """
        on_new_session(self._tree, self._on_new_session)
        await self._watcher.start()
        await self.load_topics(await self._stored.entities(zk_paths.TOPIC_CONFIGS))
        for entity_type in self._followed():
            await self._tell(entity_type, await self._stored.places(entity_type))
        self._applying.start()

    async def stop(self) -> None:
        """Follow changes no longer, and wait until none is being applied."""
        await self._watcher.stop()
        await self._applying.stop()

    async def load_topics(self, topics: Iterable[str]) -> None:
        """Read the overrides of topics that this broker is about to work with."""
        async with self._reading:
            found = await self._stored.all_overrides(zk_paths.TOPIC_CONFIGS, list(topics))
            for topic, overrides in found.items():
                if overrides:
                    self._topics[topic] = overrides
                else:
                    self._topics.pop(topic, None)

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """The overrides of a topic as last read; empty for a topic without any."""
        return self._topics.get(topic, {})

    def forget_topics(self, partitions: Iterable[TopicPartition]) -> None:
        """The topics of these partitions are deleted."""
        for topic_partition in partitions:
            self._topics.pop(topic_partition.topic, None)

    def _on_notification(self, data: bytes | None) -> None:
        self._changed.append(zk_paths.decode_config_change(data))
        self._applying.again()

    def _on_new_session(self) -> None:
        self._is_stale = True
        self._applying.again()

    async def _apply_all(self) -> None:
        while self._is_stale or self._changed:
            await self._apply_next()

    async def _apply_next(self) -> None:
        """Apply the first change that waits; it goes on waiting if the tree is away."""
        if self._is_stale:
            self._is_stale = False
            try:
                await self._read_again()
            except TreeError:
                self._is_stale = True
                raise
            return
        entity_path = self._changed[0]
        try:
            await self._apply(*entity_path.split("/", 1))
        except TreeUnavailableError:
            raise
        except Exception:
            _log.exception("settings of %s cannot be applied", entity_path)
        self._changed.popleft()

    async def _read_again(self) -> None:
        for entity_type in self._followed():
            names = await self._stored.places(entity_type)
            gone = self._known.get(entity_type, set()).difference(names)
            for row in slices([*names, *gone], _ROW_ENTITIES):
                try:
                    await self._tell(entity_type, row)
                except TreeError:
                    raise
                except Exception:  # of one of them, which is named when each is told by itself
                    self._changed.extend(f"{entity_type}/{name}" for name in row)
        named = await self._stored.entities(zk_paths.TOPIC_CONFIGS)
        before = dict(self._topics)
        await self.load_topics(dict.fromkeys([*before, *named]))
        self._changed.extend(
            f"{zk_paths.TOPIC_CONFIGS}/{topic}"
            for topic in dict.fromkeys([*before, *self._topics])
            if before.get(topic) != self._topics.get(topic)
        )

    async def _apply(self, entity_type: str, entity: str) -> None:
        if entity_type == zk_paths.TOPIC_CONFIGS:
            await self.load_topics([entity])
        await self._tell(entity_type, [entity])

    def _followed(self) -> list[str]:
        """The types whose entities are all told at a start."""
        return [each for each in self._handlers if each != zk_paths.TOPIC_CONFIGS]

    async def _tell(self, entity_type: str, entities: list[str]) -> None:
        handlers = self._handlers.get(entity_type)
        if not handlers:
            return
        # What cannot be read is reported; the old settings stay in force.
        found = await self._stored.all_overrides(entity_type, entities)
        for entity, overrides in found.items():
            self._note(entity_type, entity, overrides)
            for handler in handlers:
                try:
                    handler(entity, overrides)
                except ConfigError as error:
                    # Not written by a broker; as in Kafka, no reason not to start.
                    _log.error("settings of %s/%s are not applied: %s", entity_type, entity, error)

    def _note(self, entity_type: str, entity: str, overrides: Mapping[str, str]) -> None:
        known = self._known.setdefault(entity_type, set())
        if overrides:
            known.add(entity)
        else:
            known.discard(entity)
