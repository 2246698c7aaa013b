"""ZkEntityConfigs: the overrides of topics, brokers, clients, users and addresses under /config.

Law: a change expects the version that was read, and is written in one transaction with the
notification that makes every broker read it. So no change is lost to a simultaneous one, and none
goes unnoticed. As in Kafka, a user, client or address without overrides has no node, unless one
that has some is within it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kbroker.zk import zk_paths
from kbroker.zk.tree import (
    ANY_VERSION,
    BadVersionError,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Op,
    SetOp,
)
from kbroker.zk.zk_utils import MAX_CONFLICTS, ZkUtils

Overrides = dict[str, str]
Change = Callable[[Overrides], Overrides]
"""The overrides afterwards, given those before; may refuse by raising."""
Names = tuple[str | None, ...]
"""What an entity is called, and what it is within, the outer one first; None is the default."""

_GO_WHEN_EMPTY = frozenset({zk_paths.CLIENT_CONFIGS, zk_paths.USER_CONFIGS, zk_paths.IP_CONFIGS})
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


class ZkEntityConfigs:
    """The nodes under /config. Used on the event loop only."""

    def __init__(self, zk: ZkUtils) -> None:
        self._zk = zk

    async def overrides(self, entity_type: str, name: str) -> Overrides:
        """Overrides of an entity; empty if it has none."""
        return (await self.all_overrides(entity_type, [name])).get(name, {})

    async def all_overrides(self, entity_type: str, names: Sequence[str]) -> dict[str, Overrides]:
        """Overrides of many entities; those whose node cannot be read are left out."""
        paths = [zk_paths.config_path(entity_type, name) for name in names]
        found: dict[str, Overrides] = {}
        nodes = await self._zk.tree.get_all(paths)
        for name, path, node in zip(names, paths, nodes, strict=True):
            data = node[0] if node is not None else None
            overrides = self._zk.decoded(zk_paths.decode_config, path, data)
            if overrides is not None:
                found[name] = overrides
        return found

    async def entities(self, entity_type: str) -> list[str]:
        return await self._zk.children(zk_paths.config_root_path(entity_type))

    async def every(
        self, entity_type: str, inner_type: str | None = None
    ) -> dict[Names, Overrides]:
        """Overrides of all entities of a type, or of all of a type within those."""
        paths = await self.entities(entity_type)
        if inner_type is not None:
            paths = [
                f"{path}/{inner_type}/{inner}"
                for path in paths
                for inner in await self._inner_entities(entity_type, path, inner_type)
            ]
        found = await self.all_overrides(entity_type, paths)
        return {_names(path): overrides for path, overrides in found.items()}

    async def _inner_entities(self, entity_type: str, name: str, inner_type: str) -> list[str]:
        path = f"{zk_paths.config_path(entity_type, name)}/{inner_type}"
        try:
            return await self._zk.tree.children(path)
        except NoNodeError:
            return []

    async def update(self, entity_type: str, name: str, change: Change) -> None:
        """Replace an entity's overrides by the result of `change`, and notify all brokers.

        Raises NoNodeError for a topic that does not exist, and NodeTooLargeError.
        """
        path = zk_paths.config_path(entity_type, name)
        for _ in range(MAX_CONFLICTS):
            ops = [await self._write(entity_type, path, change), _notification(entity_type, name)]
            if entity_type == zk_paths.TOPIC_CONFIGS:
                ops.append(CheckOp(zk_paths.topic_path(name), ANY_VERSION))
            try:
                await self._zk.tree.multi(ops)
            except (BadVersionError, NodeExistsError, NotEmptyError):
                continue
            except NoNodeError as error:
                if error.op_index == 2:
                    raise
                await self._zk.create_if_absent(path.rpartition("/")[0])
                await self._zk.create_if_absent(zk_paths.CONFIG_CHANGES)
                continue
            return
        raise BadVersionError(path)

    async def _write(self, entity_type: str, path: str, change: Change) -> Op:
        try:
            data, stat = await self._zk.tree.get(path)
        except NoNodeError:
            return CreateOp(path, zk_paths.encode_config(change({})))
        after = change(self._zk.decoded(zk_paths.decode_config, path, data) or {})
        goes = not after and entity_type in _GO_WHEN_EMPTY
        if goes and not await self._zk.children(path):
            return DeleteOp(path, stat.version)
        return SetOp(path, zk_paths.encode_config(after), stat.version)


def _names(path: str) -> Names:
    """The names in `NAME` or `NAME/clients/NAME`, written as in URLs: none holds a slash."""
    return tuple(
        None if name == zk_paths.DEFAULT_ENTITY else entity_name(name)
        for name in path.split("/")[::2]
    )


def entity_name(name: str) -> str:
    """Read the name of a node, in which Kafka writes names as in URLs."""
    # urllib.parse would cost every start 10 ms.
    octets = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), name.encode())
    return octets.decode(errors="replace")


def _notification(entity_type: str, name: str) -> Op:
    data = zk_paths.encode_config_change(f"{entity_type}/{name}")
    return CreateOp(zk_paths.config_change_prefix(), data, sequential=True)
