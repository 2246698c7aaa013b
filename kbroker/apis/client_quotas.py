"""Quotas of clients: how long a connection pauses because of what it asked for (KIP-13, KIP-219).

The answer leaves at once and says for how long its connection is muted; the broker holds to it.
What holds for whom is known to an implementation of `Quotas` alone. What a registration calls
exempt is not counted, as with Kafka: a follower's Fetch.

Law: requests of an API for which nobody has a limit pass no stage, and take every shortcut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from kbroker.protocol.api_keys import ApiKey
from kbroker.quotas.quota_keys import ClientQuotaType

if TYPE_CHECKING:  # most brokers have no limits
    from kbroker.quotas.client_quota_manager import ClientAccount

_COUNTED: Mapping[int, ClientQuotaType] = {
    ApiKey.PRODUCE: ClientQuotaType.PRODUCE,
    ApiKey.FETCH: ClientQuotaType.FETCH,
    ApiKey.CREATE_TOPICS: ClientQuotaType.CONTROLLER_MUTATION,
    ApiKey.DELETE_TOPICS: ClientQuotaType.CONTROLLER_MUTATION,
    ApiKey.CREATE_PARTITIONS: ClientQuotaType.CONTROLLER_MUTATION,
}  # beside the time that all requests take
_PERCENT_PER_NS = 100 / 1e9  # of the second that a loop has in a second


class Quotas(Protocol):
    """Knows the limits of clients, and what they use."""

    def has(self, kind: ClientQuotaType, /) -> bool:
        """Whether anybody has a limit of this kind."""
        ...

    def account(self, principal: str, client_id: str | None, now_ms: float, /) -> ClientAccount:
        """The limits of one client. `now_ms` is of the monotonic clock."""
        ...


def counted_for(key: int, quotas: Quotas | None) -> Quotas | None:
    """The quotas, if anybody has a limit that counts requests of an API; None else."""
    if quotas is None:
        return None
    counted = _COUNTED.get(key, ClientQuotaType.REQUEST)
    return quotas if quotas.has(ClientQuotaType.REQUEST) or quotas.has(counted) else None


def percent_of_loop(used_ns: int) -> float:
    """The time of one request, as limits count it."""
    return used_ns * _PERCENT_PER_NS
