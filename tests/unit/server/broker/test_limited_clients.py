"""Limits that change under a running broker."""

from __future__ import annotations

import asyncio
from typing import Any

from kbroker.config.quota_config import QuotaConfig
from kbroker.quotas.quota_entity import QuotaEntity
from kbroker.server.broker.limited_clients import LimitedClients


class Apis:
    """Notes which quotas it is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def limit(self, quotas: Any) -> None:
        self.given.append(quotas)


async def test_limits_hold_from_the_first_to_the_last_all_of_a_turn_at_once() -> None:
    apis: Any = Apis()
    limited = LimitedClients(apis, QuotaConfig())

    for number in range(100):
        limited.limits.put(QuotaEntity(f"user-{number}"), {"producer_byte_rate": 5})
        limited.changed()
    await asyncio.sleep(0)
    assert apis.given == [limited.quotas]

    for number in range(100):
        limited.limits.remove(QuotaEntity(f"user-{number}"))
        limited.changed()
    await asyncio.sleep(0)
    assert apis.given == [limited.quotas, None]


def test_the_settings_say_how_rates_are_measured() -> None:
    config = QuotaConfig(
        quota_window_num=3,
        quota_window_size_seconds=2,
        controller_quota_window_num=5,
        controller_quota_window_size_seconds=4,
    )
    limited = LimitedClients(Apis(), config)  # type: ignore[arg-type]
    limited.limits.put(
        QuotaEntity("ann"), {"producer_byte_rate": 10, "controller_mutation_rate": 1}
    )
    account = limited.quotas.account("User:ann", "app", 0)
    assert account.produce is not None
    assert account.mutations is not None
    assert account.produce.most_at_once == 10 * 2 * 2
    assert account.mutations.measured(0) == 5 * 4
