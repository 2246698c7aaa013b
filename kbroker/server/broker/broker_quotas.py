"""The quotas of a broker: the limits that the tree has, and where they hold."""

from __future__ import annotations

from collections.abc import Callable

from kbroker.admin.dynamic_config_manager import DynamicConfigManager
from kbroker.admin.followed_quotas import FollowedQuotas, LimitsOfClients
from kbroker.config.quota_config import QuotaConfig
from kbroker.network.address_rates import AddressRates
from kbroker.network.socket_server import SocketServer
from kbroker.quotas.rate import Windows


def follow_quotas(
    server: SocketServer,
    config: QuotaConfig,
    changes: DynamicConfigManager,
    limits: LimitsOfClients,
    on_change: Callable[[], None] = lambda: None,
) -> FollowedQuotas:
    """Let the limits of addresses hold at a server, and those of clients in `limits`, from the
    start of `changes` on. `on_change` is called when the latter have changed.
    """
    windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
    addresses = server.quotas.addresses = AddressRates(windows)
    followed = FollowedQuotas(limits, addresses.put, on_change)
    followed.follow(changes)
    return followed
