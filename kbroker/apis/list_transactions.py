"""ListTransactions (66), versions 0 and 1: the transactional ids this broker coordinates (KIP-664).

v1: filter by how long a transaction has been open (KIP-994). Not served: v2, whose pattern is for
an engine that answers in linear time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from kbroker.acl.acl import AclOperation, AclResource, AclResourceType
from kbroker.apis.authorization import AskedInside
from kbroker.apis.authorizer import Purpose
from kbroker.apis.context import RequestContext
from kbroker.apis.large_answers import is_large, written
from kbroker.apis.large_requests import worked
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.registry import api
from kbroker.apis.request_parts import AS_A_WHOLE
from kbroker.coordinator.transaction.machine import KeptTransaction
from kbroker.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kbroker.slices import slices
from kbroker.turns import ENTRIES

T = TypeVar("T")

State = ListTransactionsResponse.TransactionState

_BYTES_OF_ID = 64


@api(
    ListTransactionsRequest,
    AskedInside(AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID),
    parts=AS_A_WHOLE,
)
def handle(
    ctx: RequestContext, request: ListTransactionsRequest
) -> NowOrLater[ListTransactionsResponse]:
    """List the ids that pass the filters and that the client may see."""
    states: dict[str, None] = {}
    producer_ids: dict[int, None] = {}
    steps = chain(
        _once(request.state_filters, states), _once(request.producer_id_filters, producer_ids)
    )
    entries = len(request.state_filters) + len(request.producer_id_filters)
    return worked(steps, entries, _listed, ctx, states, producer_ids, request.duration_filter)


def _once(values: Iterable[T], found: dict[T, None]) -> Iterator[None]:
    """Each once, in their order."""
    for value in values:
        found[value] = None
        yield


def _listed(
    ctx: RequestContext, states: dict[str, None], producer_ids: dict[int, None], duration_ms: int
) -> NowOrLater[ListTransactionsResponse]:
    kept, passes, unknown = ctx.services.transactions.list_transactions(
        states, producer_ids, duration_ms
    )
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    parts = (_shown(ctx, some, passes) for some in slices(kept, ENTRIES))
    size_bytes = _BYTES_OF_ID * len(kept)
    if is_large(size_bytes):
        return written(ctx, response, "transaction_states", parts, size_bytes)
    response.transaction_states = list(chain.from_iterable(parts))
    return response


def _shown(
    ctx: RequestContext,
    kept: Iterable[KeptTransaction],
    passes: Callable[[KeptTransaction], bool],
) -> list[State]:
    return [_state(each) for each in kept if passes(each) and _is_shown(ctx, each.transactional_id)]


def _state(kept: KeptTransaction) -> State:
    transaction = kept.entry.transaction
    return State(
        transactional_id=kept.transactional_id,
        producer_id=transaction.producer.producer_id,
        transaction_state=transaction.state.label,
    )


def _is_shown(ctx: RequestContext, name: str) -> bool:
    return ctx.is_authorized(
        AclOperation.DESCRIBE,
        AclResource(AclResourceType.TRANSACTIONAL_ID, name),
        Purpose.TO_CHOOSE,
    )
