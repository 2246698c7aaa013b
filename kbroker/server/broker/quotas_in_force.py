"""The quotas of a broker that may have some: what follows their nodes, and what counts."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.admin.followed_quotas import FollowedQuotas
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.clock import Clock
from kbroker.config.kafka_config import KafkaConfig
from kbroker.network.address_rates import AddressRates
from kbroker.network.socket_server import SocketServer
from kbroker.quotas.rate import Windows
from kbroker.replication.metadata_cache import MetadataCache
from kbroker.server.broker.limited_clients import LimitedClients, limited_clients


class QuotasInForce(NamedTuple):
    """The limits as the tree has them, and the clients that they hold for."""

    followed: FollowedQuotas
    limited: LimitedClients


def quotas_in_force(
    server: SocketServer,
    apis: KafkaApis,
    config: KafkaConfig,
    clock: Clock,
    metadata: MetadataCache,
) -> QuotasInForce:
    """Let limits of addresses hold at a server, and those of clients for requests. Raises
    ConfigError.
    """
    windows = Windows(config.quota.quota_window_num, config.quota.quota_window_size_seconds * 1_000)
    addresses = server.quotas.addresses = AddressRates(windows)
    limited = limited_clients(apis, config, clock, metadata)
    followed = FollowedQuotas(limited.limits, addresses.put, limited.changed)
    return QuotasInForce(followed, limited)
