"""The identity of this broker: its cluster's id and its own, from the configuration, the data
directory and the tree.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass

from kbroker.config.kafka_config import ORIGIN_PROFILE, KafkaConfig
from kbroker.errors import ConfigError
from kbroker.log.disk.checkpoint import MetaProperties
from kbroker.log.disk.format import META_PROPERTIES_FILE
from kbroker.server.start_error import InconsistentClusterIdError
from kbroker.zk import zk_paths
from kbroker.zk.nodes.broker_sequence import generate_broker_id
from kbroker.zk.tree import NoNodeError
from kbroker.zk.zk_utils import ZkUtils


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The two ids that every data directory carries too."""

    cluster_id: str
    broker_id: int


async def check_cluster_id(
    zk: ZkUtils, meta: MetaProperties | None, directory: str, tree: str
) -> None:
    """Refuse data of another cluster before anything is written; `tree` is the tree's name.

    Raises InconsistentClusterIdError.
    """
    own = meta.cluster_id if meta is not None else None
    if own is None:
        return
    try:
        found = zk_paths.decode_cluster_id((await zk.tree.get(zk_paths.CLUSTER_ID))[0])
    except NoNodeError:
        found = None
    if found != own:
        whose = f"holds cluster {found}" if found is not None else "holds no cluster yet"
        raise InconsistentClusterIdError(
            f"Data directory {directory} belongs to cluster {own}, but {tree} {whose}: check the "
            f"address (with its chroot), or use another directory, or remove its "
            f"{META_PROPERTIES_FILE} if this is intended"
        )


async def settle_identity(
    config: KafkaConfig,
    zk: ZkUtils,
    meta: MetaProperties | None,
    wanted_cluster_id: str | None,
    *,
    is_ensemble: bool = False,
) -> BrokerIdentity:
    """The ids in force; new ones for a new cluster or a broker without id. Raises ConfigError.

    A broker of an ensemble never gets the id of a profile: the next one would have it too.
    """
    known = meta.cluster_id if meta is not None else None
    proposal = known or wanted_cluster_id or new_cluster_id()
    cluster_id = await zk.get_or_create_cluster_id(proposal)
    configured = config.server.broker_id
    if is_ensemble:
        check_not_reserved(config)
    if configured >= 0 and not (is_ensemble and _is_profiles(config)):
        is_wish = not _is_profiles(config) or meta is None or meta.broker_id is None
        if is_wish:
            return BrokerIdentity(cluster_id, configured)
    return BrokerIdentity(cluster_id, await _known_or_new_id(config, zk, meta))


def check_not_reserved(config: KafkaConfig) -> None:
    """Raise ConfigError for a set id above the reserved ones: others may be given it."""
    server = config.server
    if server.broker_id_generation_enable and server.broker_id > server.reserved_broker_max_id:
        raise ConfigError(
            f"broker.id={server.broker_id} is above "
            f"reserved.broker.max.id={server.reserved_broker_max_id}, above which ids are "
            f"generated: choose a lower one, or set broker.id.generation.enable=false"
        )


def _is_profiles(config: KafkaConfig) -> bool:
    """Whether the id comes from the profile, so that one in the data directory goes before it."""
    return config.origin("broker.id") == ORIGIN_PROFILE


async def _known_or_new_id(config: KafkaConfig, zk: ZkUtils, meta: MetaProperties | None) -> int:
    if meta is not None and meta.broker_id is not None:
        return meta.broker_id
    if not config.server.broker_id_generation_enable:
        raise ConfigError(
            "broker.id is not set and broker.id.generation.enable is false: set one of them"
        )
    return await generate_broker_id(zk, config.server.reserved_broker_max_id)


def config_of_broker(config: KafkaConfig, broker_id: int) -> KafkaConfig:
    """The same settings with the id in force."""
    if config.server.broker_id == broker_id:
        return config
    ids = {"broker.id": str(broker_id), "node.id": str(broker_id)}
    return KafkaConfig({**config.texts, **ids}, config.origins)


def new_cluster_id() -> str:
    """A random UUID as Kafka writes it: URL-safe base64 that begins with no dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text
