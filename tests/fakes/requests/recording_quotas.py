"""Quotas that throttle everybody alike, and remember for what they were asked."""

from __future__ import annotations

from kbroker.apis.client_quotas import Usage


class RecordingQuotas:
    """Pauses each connection for so long after each answer."""

    def __init__(self, throttle_ms: int = 0) -> None:
        self._throttle_ms = throttle_ms
        self.used: list[Usage] = []

    def throttle_ms(self, usage: Usage) -> int:
        """Count an answered request; milliseconds to pause."""
        self.used.append(usage)
        return self._throttle_ms
