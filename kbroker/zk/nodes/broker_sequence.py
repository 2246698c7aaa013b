"""Broker ids that nobody chose, from /brokers/seqid.

As in Kafka: the version of a node that is only ever overwritten counts the ids given out.
"""

from __future__ import annotations

from kbroker.zk.tree import NoNodeError
from kbroker.zk.zk_paths import BROKER_SEQUENCE_ID, broker_path
from kbroker.zk.zk_utils import ZkUtils


async def generate_broker_id(zk: ZkUtils, reserved_max_id: int) -> int:
    """An id that no other broker of the cluster was given, above the ids that people choose.

    An id that is in use after all, because the node was removed by hand, is skipped.
    """
    while True:
        await zk.create_if_absent(BROKER_SEQUENCE_ID)
        try:
            stat = await zk.tree.set(BROKER_SEQUENCE_ID, b"")
        except NoNodeError:
            continue
        broker_id = reserved_max_id + stat.version
        if await zk.tree.exists(broker_path(broker_id)) is None:
            return broker_id
