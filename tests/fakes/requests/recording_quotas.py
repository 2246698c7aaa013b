"""Quotas that throttle everybody alike, and remember what was counted for whom."""

from __future__ import annotations

from typing import Any

from kbroker.quotas.client_quota_manager import ClientAccount
from kbroker.quotas.quota_keys import ClientQuotaType


class RecordingQuotas:
    """Pauses each connection for so long after each answer."""

    def __init__(
        self,
        throttle_ms: int = 0,
        kinds: frozenset[ClientQuotaType] = frozenset({ClientQuotaType.REQUEST}),
    ) -> None:
        self.throttle_ms = throttle_ms
        self._kinds = kinds
        self.used: list[tuple[ClientQuotaType, str, str | None, float]] = []

    def has(self, kind: ClientQuotaType) -> bool:
        """Whether this kind is counted."""
        return kind in self._kinds

    def account(self, principal: str, client_id: str | None, _now_ms: float) -> ClientAccount:
        """The limits of a client: those of all."""
        limits: list[Any] = [
            _Recorder(self, kind, principal, client_id) if kind in self._kinds else None
            for kind in ClientQuotaType
        ]
        return ClientAccount(*limits)

    def use(self, *used: Any) -> int:
        """Note what is used."""
        self.used.append(used)
        return self.throttle_ms


class _Recorder:
    most_at_once = 1e9

    def __init__(self, quotas: RecordingQuotas, *whose: Any) -> None:
        self._quotas = quotas
        self._whose = whose

    def use(self, amount: float, _now_ms: float) -> int:
        """Note it, whose it is."""
        return self._quotas.use(*self._whose, amount)

    def take_back(self, amount: float, now_ms: float) -> None:
        """Note it as less than nothing."""
        self.use(-amount, now_ms)
