"""Partitions that a controller makes and deletes for clients, counted against their limits
(KIP-599).

Law: in versions that know THROTTLING_QUOTA_EXCEEDED, a client whose limit is used up is refused,
topic by topic; what is within it is done whole, even if it takes more than is left. In older ones
all is done, and the client pauses. The controller counts, whichever broker was asked; that one
mutes its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbroker.apis.client_quotas import counted_for
from kbroker.apis.context import RequestContext
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.api_keys import ApiKey

if TYPE_CHECKING:  # most brokers have no limits
    from kbroker.quotas.client_quota_manager import MutationQuota


class ControllerMutations:
    """Counts the partitions of one request as they are made or deleted."""

    __slots__ = ("_clock", "_is_strict", "_open_at_ms", "_quota")

    def __init__(self, ctx: RequestContext, strict_since: int | None = None) -> None:
        """`strict_since` is the first version that knows the refusal; None: none does."""
        self._clock = ctx.services.clock
        self._is_strict = strict_since is not None and ctx.api_version >= strict_since
        self._open_at_ms = 0.0
        self._quota: MutationQuota | None = None
        quotas = counted_for(ApiKey.CREATE_TOPICS, ctx.services.quotas)
        if quotas is not None:
            now_ms = self._clock.monotonic_ms()
            self._quota = quotas.account(ctx.connection.principal, ctx.client_id, now_ms).mutations

    def count(self, partitions: int) -> None:
        """Count partitions that are about to be made or deleted. Raises KafkaError
        THROTTLING_QUOTA_EXCEEDED if the client has to wait first.
        """
        quota = self._quota
        if quota is None:
            return
        now_ms = self._clock.monotonic_ms()
        if not self._is_strict:
            delay_ms = quota.take(partitions, now_ms)
        else:
            delay_ms = quota.take_if_open(partitions, now_ms)
        if delay_ms:
            self._open_at_ms = now_ms + delay_ms
            if self._is_strict:
                message = "The throttling quota has been exceeded."
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)

    @property
    def throttle_ms(self) -> int:
        """For how long the client has to pause from now on."""
        if not self._open_at_ms:
            return 0
        return max(0, round(self._open_at_ms - self._clock.monotonic_ms()))
