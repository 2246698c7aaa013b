"""Copies everything that outlives brokers from one tree into another: from an embedded tree to an
ensemble and back, or between any two.

Law: the target ends up like the source, or is marked: the first write of a copy leaves a mark, its
last one takes the mark away. A copy that broke off is repeated and goes on from there; nobody may
start brokers on a marked tree. Nothing is written while brokers live there, or over the tree of
another cluster.

Not copied: ephemeral nodes, ZooKeeper's own, and notifications, as their numbers would start over
in the target and nobody who missed them is alive. The version of /brokers/seqid is carried over: it
counts the broker ids given out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from kbroker.zk import zk_paths
from kbroker.zk.copy_mark import UNFINISHED_COPY, decode_mark, encode_mark
from kbroker.zk.tree import (
    NO_OWNER,
    CreateOp,
    DeleteOp,
    NodeExistsError,
    NoNodeError,
    Op,
    SetOp,
    Tree,
    TreeError,
)
from kbroker.zk.znode_json import ZnodeFormatError

_ZOOKEEPER = "/zookeeper"
_NOTIFICATIONS = frozenset(
    {
        zk_paths.CONFIG_CHANGES,
        zk_paths.ISR_CHANGE_NOTIFICATION,
        zk_paths.LOG_DIR_EVENT_NOTIFICATION,
        zk_paths.ACL_CHANGES,
        zk_paths.EXTENDED_ACL_CHANGES,
        zk_paths.DELEGATION_TOKEN_CHANGES,
    }
)
_AT_ONCE = 512  # requests under way; progress is reported between two such rows

AnswerT = TypeVar("AnswerT")
Progress = Callable[[int, int], None]  # (done, of so many)


class CopyRefusedError(Exception):
    """The copy would do harm; the message is one sentence for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeImage:
    """The nodes of a tree that a copy takes along."""

    nodes: Mapping[str, bytes | None]  # by path, parents before children; the root is left out
    broker_ids_given_out: int = 0  # version of /brokers/seqid
    live_brokers: Sequence[str] = ()
    broken_off: str | None = None  # the cluster of an earlier copy into it that broke off

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id. Raises CopyRefusedError for one that cannot be read."""
        if zk_paths.CLUSTER_ID not in self.nodes:
            return None
        try:
            return zk_paths.decode_cluster_id(self.nodes[zk_paths.CLUSTER_ID])
        except ZnodeFormatError as error:
            raise CopyRefusedError(f"the cluster's id cannot be read: {error}") from error

    @property
    def topics(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self._children(zk_paths.TOPICS)]

    def partitions_without(self, broker_ids: Iterable[int]) -> int:
        """The number of partitions without a replica on any of these brokers."""
        here = set(broker_ids)
        count = 0
        for topic in self.topics:
            with suppress(ZnodeFormatError):
                assignment = zk_paths.decode_topic(topic, self.nodes[zk_paths.topic_path(topic)])
                partitions = assignment.partitions.values()
                count += sum(here.isdisjoint(held.replicas) for held in partitions)
        return count

    @property
    def partition_count(self) -> int:
        """Number of partitions that have been led."""
        return sum(path.endswith("/state") for path in self.nodes)

    @property
    def users_with_credentials(self) -> int:
        """Number of users by whose nodes passwords can be tried."""
        return sum(
            b'"SCRAM-' in (self.nodes[path] or b"")
            for path in self._children(zk_paths.config_root_path(zk_paths.USER_CONFIGS))
        )

    def _children(self, parent: str) -> Iterator[str]:
        return (path for path in self.nodes if path.rpartition("/")[0] == parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPlan:
    """The writes to the target, in their order."""

    cluster_id: str
    transactions: Sequence[Sequence[Op]] = field(repr=False)
    created: int
    changed: int
    deleted: int

    @property
    def is_empty(self) -> bool:
        """True if the target is like the source already."""
        return not self.transactions


async def read_tree(tree: Tree, progress: Progress | None = None) -> TreeImage:
    """Read everything that a copy takes along, level by level.

    Raises CopyRefusedError for an unreadable mark of a copy.
    """
    nodes: dict[str, bytes | None] = {}
    live_brokers: list[str] = []
    given_out = 0
    paths = ["/"]
    while paths:
        found = await _in_rows(paths, tree.get_all)
        parents = []
        for path, node in zip(paths, found, strict=True):
            if node is None:
                continue  # gone meanwhile
            data, stat = node
            if stat.ephemeral_owner != NO_OWNER:
                if path.startswith(f"{zk_paths.BROKER_IDS}/"):
                    live_brokers.append(path.rpartition("/")[2])
                continue
            if path == zk_paths.BROKER_SEQUENCE_ID:
                given_out = stat.version
            nodes[path] = data
            if stat.num_children and path not in _NOTIFICATIONS:
                parents.append(path)
        if progress is not None:
            progress(len(nodes), len(nodes))
        paths = await _children_of(tree, parents)
    nodes.pop("/", None)  # the path may not exist in an ensemble
    broken_off = _broken_off(nodes.pop(UNFINISHED_COPY)) if UNFINISHED_COPY in nodes else None
    return TreeImage(
        nodes=nodes,
        broker_ids_given_out=given_out,
        live_brokers=live_brokers,
        broken_off=broken_off,
    )


def plan_copy(source: TreeImage, target: TreeImage, *, replace: bool = False) -> CopyPlan:
    """Plan the writes that make `target` like `source`; `replace` allows it for another state of
    the cluster. Raises CopyRefusedError.
    """
    cluster_id = _check(source, target)
    missing = [path for path in source.nodes if path not in target.nodes]
    differing = [
        path
        for path, data in source.nodes.items()
        if path in target.nodes and (target.nodes[path] or b"") != (data or b"")
    ]
    extra = [p for p in target.nodes if p not in source.nodes and p not in _NOTIFICATIONS]
    ids = max(0, source.broker_ids_given_out - target.broker_ids_given_out)
    is_new = target.cluster_id is None or target.broken_off is not None
    if (differing or extra or missing) and not is_new and not replace:
        example = next(iter([*differing, *missing, *extra]))
        count = len(differing) + len(missing) + len(extra)
        raise CopyRefusedError(
            f"the target holds a tree of cluster {cluster_id} that differs in "
            f"{count} {'node' if count == 1 else 'nodes'}, such as {example}: add --replace "
            "to replace it with the source's"
        )
    writes: list[Sequence[Op]] = [
        *((DeleteOp(path),) for path in reversed(extra)),
        *((CreateOp(path, source.nodes[path]),) for path in missing),
        *((SetOp(path, source.nodes[path]),) for path in differing),
        *((SetOp(zk_paths.BROKER_SEQUENCE_ID, b""),) for _ in range(ids)),
    ]
    if writes or target.broken_off is not None:
        mark = encode_mark(cluster_id)
        start = [] if target.broken_off is not None else [(CreateOp(UNFINISHED_COPY, mark),)]
        writes = [*start, *writes, (DeleteOp(UNFINISHED_COPY),)]
    return CopyPlan(
        cluster_id=cluster_id,
        transactions=writes,
        created=len(missing),
        changed=len(differing),
        deleted=len(extra),
    )


async def carry_out(
    tree: Tree,
    plan: CopyPlan,
    progress: Progress | None = None,
    when_written: Callable[[], None] | None = None,
) -> None:
    """Write the plan; the mark goes once all else is there and `when_written` has returned.

    Raises CopyRefusedError for a node the target does not take, TreeUnavailableError if the target
    went away: the copy can be repeated then.
    """
    writes, last = plan.transactions[:-1], plan.transactions[-1:]
    for start in range(0, len(writes), _AT_ONCE):
        if progress is not None:
            progress(start, len(writes))
        row = writes[start : start + _AT_ONCE]
        for ops, outcome in zip(row, await tree.multi_all(row), strict=True):
            if isinstance(outcome, TreeError):
                _settle(ops[0], outcome)
    if when_written is not None:
        when_written()
    for ops in last:
        await tree.multi(ops)


def _broken_off(mark: bytes | None) -> str:
    try:
        return decode_mark(mark)
    except ZnodeFormatError as error:
        raise CopyRefusedError(f"what was being copied cannot be read: {error}") from error


def _check(source: TreeImage, target: TreeImage) -> str:
    cluster_id = source.cluster_id
    if cluster_id is None:
        raise CopyRefusedError(
            "the source holds no cluster: it has no node /cluster/id; check the directory, or the "
            "address with its chroot"
        )
    if source.broken_off is not None:
        raise CopyRefusedError("the source is itself an interrupted copy: repeat that one first")
    for name, image in (("source", source), ("target", target)):
        if image.live_brokers:
            ids = ", ".join(sorted(image.live_brokers))
            raise CopyRefusedError(
                f"brokers are running on the {name}: stop {ids} first (after a kill, their session "
                "has to end)"
            )
    for other in (target.cluster_id, target.broken_off):
        if other not in (None, cluster_id):
            raise CopyRefusedError(
                f"the target holds cluster {other}, the source cluster {cluster_id}: use another "
                "chroot, or another directory"
            )
    foreign = [path for path in target.nodes if path not in source.nodes]
    is_foreign = target.cluster_id is None and target.broken_off is None
    if is_foreign and (foreign or target.topics):
        raise CopyRefusedError(
            f"the target is not empty, and holds no cluster: it has nodes such as "
            f"{(foreign or [zk_paths.TOPICS])[0]}; use another chroot, or remove them"
        )
    return cluster_id


def _settle(op: Op, error: TreeError) -> None:
    """Settle a refused write: fine if a copy that broke off had done it."""
    if isinstance(op, CreateOp) and isinstance(error, NodeExistsError):
        return
    if isinstance(op, DeleteOp) and isinstance(error, NoNodeError):
        return
    size = len(op.data or b"") if isinstance(op, CreateOp | SetOp) else 0
    raise CopyRefusedError(
        f"the target does not take node {op.path} ({size} bytes): {type(error).__name__}"
    ) from error


async def _children_of(tree: Tree, parents: Sequence[str]) -> list[str]:
    async def names(row: Sequence[str]) -> list[list[str]]:
        return await asyncio.gather(*(_names(tree, path) for path in row))

    return [
        f"{'' if parent == '/' else parent}/{name}"
        for parent, children in zip(parents, await _in_rows(parents, names), strict=True)
        for name in children
        if f"{parent}{name}" != _ZOOKEEPER
    ]


async def _in_rows(
    paths: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[Sequence[AnswerT]]]
) -> list[AnswerT]:
    answers: list[AnswerT] = []
    for start in range(0, len(paths), _AT_ONCE):
        answers += await ask(paths[start : start + _AT_ONCE])
    return answers


async def _names(tree: Tree, path: str) -> list[str]:
    try:
        return await tree.children(path)
    except NoNodeError:
        return []
