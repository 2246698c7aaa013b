"""The node with a secret of all brokers of a cluster, from which the salts of users come who do not
exist: at each broker, and after each start, a name has to get the same one. Kafka has no such node.
"""

from __future__ import annotations

from kbroker.zk import zk_paths
from kbroker.zk.zk_utils import ZkUtils


async def login_secret(zk: ZkUtils, proposal: bytes) -> bytes:
    """Read the secret; `proposal`, which is random, becomes it in a cluster without one."""
    await zk.create_if_absent(zk_paths.LOGIN_SECRET, proposal)
    return (await zk.tree.get(zk_paths.LOGIN_SECRET))[0] or proposal
