"""Consumers' limits, which are asked before a session knows the answer: a client that has to pause
gets an empty one, and reads the same again (KIP-219).

Law: a small limit starves nobody. A Fetch asks for no more than its windows allow (KAFKA-9677), and
a batch that is larger than that goes to a client that has read nothing in them. Then its pause is
as long as the batch is worth.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kbroker.apis.client_quotas import counted_for, percent_of_loop
from kbroker.apis.context import RequestContext
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.replication.reads.fetch_context import FetchContext
from kbroker.replication.reads.fetch_params import FetchParams

if TYPE_CHECKING:  # most brokers have no limits
    from kbroker.quotas.client_quota_manager import ClientAccount, RateQuota

# About what an answer takes beside its records, and what each partition in it takes.
_ANSWER_BYTES = 26
_PARTITION_BYTES = 56
_FEW = 4  # partitions with records in an answer of a client with a small limit


def restrict(ctx: RequestContext, params: FetchParams) -> None:
    """Let a consumer ask for no more at once than its limit ever allows."""
    account = _account_of(ctx)
    if account is not None and account.fetch is not None:
        most = account.fetch.most_at_once
        most = max(1, most / 2, most - _ANSWER_BYTES - _FEW * _PARTITION_BYTES)
        params.max_bytes = int(min(params.max_bytes, most))
        params.min_bytes = min(params.min_bytes, params.max_bytes)


def pauses(
    ctx: RequestContext, context: FetchContext, answers: Iterable[FetchResponse.PartitionData]
) -> bool:
    """Count what a consumer is about to get, and note for how long it has to pause. Returns whether
    it gets nothing, and not this before its pause.
    """
    context.is_counted = True
    account = None if context.origin.is_follower else _account_of(ctx)
    if account is None:
        return False
    now_ms = ctx.services.clock.monotonic_ms()
    delay_ms = 0
    if account.request is not None:
        delay_ms = account.request.use(percent_of_loop(ctx.used_ns()), now_ms)
    if account.fetch is not None:
        size = _size_of(answers, whole=context.session is None)
        if not delay_ms and _would_starve(account.fetch, size, now_ms):
            context.pause_ms = max(account.fetch.use(size, now_ms), account.fetch.worth_ms(size))
            return False
        delay_ms = max(delay_ms, _count(account.fetch, size, delay_ms, now_ms))
    context.pause_ms = delay_ms
    return delay_ms > 0


def _account_of(ctx: RequestContext) -> ClientAccount | None:
    """The limits of the client; None if nothing is counted for it here."""
    services, connection = ctx.services, ctx.connection
    quotas = counted_for(ApiKey.FETCH, services.quotas)
    if quotas is None:
        return None
    now_ms = services.clock.monotonic_ms()
    return quotas.account(connection.principal, ctx.client_id, now_ms)


def _size_of(answers: Iterable[FetchResponse.PartitionData], *, whole: bool) -> int:
    """About how many bytes an answer takes: with all partitions, or those that have records."""
    size = _ANSWER_BYTES
    for data in answers:
        records = len(data.records or b"")
        if records or whole:
            size += records + _PARTITION_BYTES
    return size


def _would_starve(fetch: RateQuota, size: int, now_ms: float) -> bool:
    """Whether a client could wait for ever: this is more than its windows ever allow."""
    return 0 < fetch.most_at_once < size and fetch.is_unused(now_ms)


def _count(fetch: RateQuota, size: int, others_ms: int, now_ms: float) -> int:
    """Count an answer, unless it is not sent because of this limit or of others."""
    delay_ms = fetch.use(size, now_ms)
    if delay_ms or others_ms:
        fetch.take_back(size, now_ms)
    return delay_ms
