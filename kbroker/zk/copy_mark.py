"""The mark of a tree that is being copied into: while it is there, nobody may start brokers on it.

`tree_copy` sets it with its first write and takes it away with its
last one.
"""

from __future__ import annotations

from kbroker.zk.tree import Tree
from kbroker.zk.znode_json import decode_json, encode_json

UNFINISHED_COPY = "/kbroker_unfinished_copy"


def encode_mark(cluster_id: str) -> bytes:
    """Data of the mark: the cluster that is copied."""
    return encode_json({"version": 1, "cluster_id": cluster_id})


def decode_mark(data: bytes | None) -> str:
    """The cluster that is copied. Raises ZnodeFormatError."""
    return str(decode_json(UNFINISHED_COPY, data).get("cluster_id"))


async def is_unfinished(tree: Tree) -> bool:
    """Whether a copy into this tree broke off: no broker may start on it."""
    return await tree.exists(UNFINISHED_COPY) is not None
