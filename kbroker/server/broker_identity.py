"""Who this broker is: its cluster's id and its own, from the configuration, the data directory and
the tree.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass

from kbroker.config.kafka_config import ORIGIN_PROFILE, KafkaConfig
from kbroker.errors import ConfigError
from kbroker.log.checkpoint import MetaProperties
from kbroker.zk import zk_paths
from kbroker.zk.zk_utils import ZkUtils


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The two ids that every data directory carries too."""

    cluster_id: str
    broker_id: int


async def settle_identity(
    config: KafkaConfig, zk: ZkUtils, meta: MetaProperties | None, wanted_cluster_id: str | None
) -> BrokerIdentity:
    """The ids in force; new ones for a new cluster or a broker without id. Raises ConfigError."""
    known = meta.cluster_id if meta is not None else None
    proposal = known or wanted_cluster_id or new_cluster_id()
    cluster_id = await zk.get_or_create_cluster_id(proposal)
    return BrokerIdentity(cluster_id, await _broker_id(config, zk, meta))


async def _broker_id(config: KafkaConfig, zk: ZkUtils, meta: MetaProperties | None) -> int:
    configured = config.server.broker_id
    # The profile's id is nobody's wish: a directory that knows its broker is asked first.
    is_wish = config.origin("broker.id") != ORIGIN_PROFILE or meta is None or meta.broker_id is None
    if configured >= 0 and is_wish:
        return configured
    if meta is not None and meta.broker_id is not None:
        return meta.broker_id
    if not config.server.broker_id_generation_enable:
        raise ConfigError(
            "broker.id is not set and broker.id.generation.enable is false: set one of them"
        )
    # As Kafka does: the version of a node that is only ever overwritten counts the ids given out.
    stat = await zk.tree.set(zk_paths.BROKER_SEQUENCE_ID, b"")
    return config.server.reserved_broker_max_id + stat.version


def config_of_broker(config: KafkaConfig, broker_id: int) -> KafkaConfig:
    """The same settings with the id that is in force, for all who read it there."""
    if config.server.broker_id == broker_id:
        return config
    ids = {"broker.id": str(broker_id), "node.id": str(broker_id)}
    return KafkaConfig({**config.texts, **ids}, config.origins)


def new_cluster_id() -> str:
    """A random id in Kafka's form: a UUID, URL-safe base64, 22 characters, not beginning with a
    dash.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
