"""Counts the requests of one shape that a connection's shortcut has answered, against the limits of
its client. The answers are bytes by then: the time for which a client pauses is put into them.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING

from kbroker.apis.client_quotas import percent_of_loop
from kbroker.apis.served_api import Served
from kbroker.clock import Clock
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.request import ConnectionInfo, NoResponse, Response
from kbroker.protocol.schema import Message

if TYPE_CHECKING:  # most brokers have no limits
    from kbroker.quotas.client_quota_manager import RateQuota

_SIZE_BYTES = 4
_INT32 = Struct(">i")
_MARK = 0x5A6B7C5D  # found nowhere else in an empty answer


class QuotaMeter:
    """The meter of one shape of requests. It holds as long as its `Served` is in force."""

    __slots__ = ("_clock", "_produce", "_request", "_throttle_at")

    def __init__(
        self,
        produce: RateQuota | None,
        request: RateQuota | None,
        clock: Clock,
        throttle_at: int | None,
    ) -> None:
        """`throttle_at` is the place of the pause in answers, from the end if it is negative."""
        self._produce = produce
        self._request = request
        self._clock = clock
        self._throttle_at = throttle_at

    @classmethod
    def of(
        cls, served: Served, connection: ConnectionInfo, client_id: str | None
    ) -> QuotaMeter | None:
        """The meter of a client's requests; None if nothing is counted for it. Law: consumers with
        limits of what they read have no shortcut, as their sessions would know of it.
        """
        if served.quotas is None:
            return None
        clock = served.services.clock
        account = served.quotas.account(connection.principal, client_id, clock.monotonic_ms())
        produce = account.produce if served.is_produce else None
        reads = served.key == ApiKey.FETCH and account.fetch is not None
        if produce is None and account.request is None and not reads:
            return None
        at = place_of_throttle(served.response_class, served.version)  # type: ignore[arg-type]  # a class has a hash
        if at is not None and at >= 0:
            at += _SIZE_BYTES + served.header.size
        return cls(produce, account.request, clock, at)

    def counted(
        self, answer: bytes, size_bytes: int, used_ns: int
    ) -> bytes | Response | NoResponse:
        """Count a request of this size, and return its answer, a frame with its size, or empty."""
        now_ms, delay_ms = self._clock.monotonic_ms(), 0
        if self._produce is not None:
            delay_ms = self._produce.use(size_bytes, now_ms)
        if self._request is not None and answer:
            delay_ms = max(delay_ms, self._request.use(percent_of_loop(used_ns), now_ms))
        if not delay_ms:
            return answer
        if not answer:
            return NoResponse(throttle_ms=delay_ms)
        at, changed = self._throttle_at, bytearray(answer)
        if at is not None:
            _INT32.pack_into(changed, at if at >= 0 else len(changed) + at, delay_ms)
        return Response([bytes(changed[_SIZE_BYTES:])], delay_ms)


@cache
def place_of_throttle(response_class: type[Message], version: int) -> int | None:
    """The place of `throttle_time_ms` in the messages of a version: from the beginning if that is
    where it is, else from the end. None if they have none.
    """
    response = response_class()
    response.throttle_time_ms = _MARK  # type: ignore[attr-defined]
    body = encode(response, version)
    at = body.find(_INT32.pack(_MARK))
    if at < 0:
        return None
    return at if at == 0 else at - len(body)
