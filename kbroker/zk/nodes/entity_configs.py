"""ZkEntityConfigs: the overrides of topics, brokers, clients, users, addresses and groups under
/config.

Law: a change expects the version that was read, and is written in one transaction with the
notification that makes every broker read it. So no change is lost to a simultaneous one, and none
goes unnoticed. As in Kafka, a user, client or address without overrides has no node, unless one
that has some is within it; what held nothing else goes together with it. Nor has a group.

A node that goes and comes again has the versions of the former one. So whoever lets one go raises
the version of the root of its type, and whoever changes one expects the version that the root had.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from kbroker.slices import slices
from kbroker.turns import turn
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

_GO_WHEN_EMPTY = frozenset(
    {
        zk_paths.CLIENT_CONFIGS,
        zk_paths.GROUP_CONFIGS,
        zk_paths.IP_CONFIGS,
        zk_paths.USER_CONFIGS,
    }
)
_ROW_NODES = 256  # asked for at a time
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
        found: dict[str, Overrides] = {}
        for row in slices(names, _ROW_NODES):
            paths = [zk_paths.config_path(entity_type, name) for name in row]
            nodes = await self._zk.tree.get_all(paths)
            for name, path, node in zip(row, paths, nodes, strict=True):
                data = node[0] if node is not None else None
                overrides = self._zk.decoded(zk_paths.decode_config, path, data)
                if overrides is not None:
                    found[name] = overrides
            if len(names) > len(row):
                await turn()
        return found

    async def entities(self, entity_type: str) -> list[str]:
        return await self._children(zk_paths.config_root_path(entity_type))

    async def places(self, entity_type: str) -> list[str]:
        """Names of all entities of a type, and of users also those within them: `u/clients/c`."""
        names = await self.entities(entity_type)
        if entity_type != zk_paths.USER_CONFIGS:
            return names
        return names + await self._all_inner(entity_type, names, zk_paths.CLIENT_CONFIGS)

    async def every(
        self, entity_type: str, inner_type: str | None = None
    ) -> dict[Names, Overrides]:
        """Overrides of all entities of a type, or of all of a type within those."""
        paths = await self.entities(entity_type)
        if inner_type is not None:
            paths = await self._all_inner(entity_type, paths, inner_type)
        found = await self.all_overrides(entity_type, paths)
        return {_names(path): overrides for path, overrides in found.items()}

    async def _all_inner(
        self, entity_type: str, names: Sequence[str], inner_type: str
    ) -> list[str]:
        found: list[str] = []
        for row in slices(names, _ROW_NODES):
            folders = [f"{name}/{inner_type}" for name in row]
            paths = [zk_paths.config_path(entity_type, folder) for folder in folders]
            children = await asyncio.gather(*map(self._children, paths))
            for folder, inner in zip(folders, children, strict=True):
                found += [f"{folder}/{name}" for name in inner]
        return found

    async def update(self, entity_type: str, name: str, change: Change) -> None:
        """Replace an entity's overrides by the result of `change`, and notify all brokers.

        Raises NoNodeError for a topic that does not exist, and NodeTooLargeError.
        """
        path = zk_paths.config_path(entity_type, name)
        for _ in range(MAX_CONFLICTS):
            writes = await self._guarded(entity_type, name, change)
            ops = [*writes, _notification(entity_type, name)]
            if entity_type == zk_paths.TOPIC_CONFIGS:
                ops.append(CheckOp(zk_paths.topic_path(name), ANY_VERSION))
            try:
                await self._zk.tree.multi(ops)
            except (BadVersionError, NodeExistsError, NotEmptyError):
                continue
            except NoNodeError as error:
                if ops[error.op_index] is ops[-1] and isinstance(ops[-1], CheckOp):
                    raise  # the topic's
                if any(isinstance(write, CreateOp) for write in writes):
                    await self._zk.create_if_absent(path.rpartition("/")[0])
                await self._zk.create_if_absent(zk_paths.CONFIG_CHANGES)
                continue
            return
        raise BadVersionError(path)

    async def _guarded(self, entity_type: str, name: str, change: Change) -> list[Op]:
        """Return the writes, and what they expect of other nodes."""
        if entity_type not in _GO_WHEN_EMPTY:
            return await self._writes(entity_type, name, change)
        root = zk_paths.config_root_path(entity_type)
        await self._zk.create_if_absent(root)
        data, stat = await self._zk.tree.get(root)  # before what it guards
        writes = await self._writes(entity_type, name, change)
        if any(isinstance(write, DeleteOp) for write in writes):
            return [*writes, SetOp(root, data, stat.version)]
        if any(isinstance(write, SetOp) for write in writes):
            return [*writes, CheckOp(root, stat.version)]
        return writes

    async def _writes(self, entity_type: str, name: str, change: Change) -> list[Op]:
        path = zk_paths.config_path(entity_type, name)
        try:
            data, stat = await self._zk.tree.get(path)
        except NoNodeError:
            after = change({})
            if not after and entity_type in _GO_WHEN_EMPTY:
                return []
            return [CreateOp(path, zk_paths.encode_config(after))]
        after = change(self._zk.decoded(zk_paths.decode_config, path, data) or {})
        goes = not after and entity_type in _GO_WHEN_EMPTY
        if goes and not await self._children(path):
            return [DeleteOp(path, stat.version), *await self._outer_that_go(entity_type, name)]
        return [SetOp(path, zk_paths.encode_config(after), stat.version)]

    async def _outer_that_go(self, entity_type: str, name: str) -> list[Op]:
        """Delete what holds this entity alone: of `u/clients/c` the nodes `u/clients` and `u`."""
        outer, _, inner_path = name.partition("/")
        if not inner_path:
            return []
        kind, _, inner = inner_path.partition("/")
        outer_path = zk_paths.config_path(entity_type, outer)
        if await self._children(f"{outer_path}/{kind}") != [inner]:
            return []
        ops: list[Op] = [DeleteOp(f"{outer_path}/{kind}")]
        found = await self._zk.look(outer_path, None)
        if found is None:
            return ops
        overrides = self._zk.decoded(zk_paths.decode_config, outer_path, found[0])
        if overrides == {} and await self._children(outer_path) == [kind]:
            ops.append(DeleteOp(outer_path, found[1].version))
        return ops

    async def _children(self, path: str) -> list[str]:
        """Names of the children; none if the node is gone meanwhile."""
        try:
            return await self._zk.tree.children(path)
        except NoNodeError:
            return []


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
