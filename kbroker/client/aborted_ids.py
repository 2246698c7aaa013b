"""Aborts what a producer that is gone has left open under its transactional id.

A producer that initializes with an id fences the producer before it, and the coordinator then
aborts what that one had open, unless its end is decided.

Law: no id is created, and no producer fenced, if nothing is open. InitProducerId creates ids, so
the coordinator is asked what there is first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.cluster_requests import TRANSACTIONAL_ID, ask_coordinator
from kbroker.client.transactions import UNDECIDED, DescribedTransaction, describe_transaction
from kbroker.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.wording import named, shown

PATIENCE_S = 60.0
_PAUSE_S = 0.1
_DECISIONS = ("PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
# The producer that takes the id over writes nothing: no broker finds this too long.
_TIMEOUT_MS = 1


@dataclass(frozen=True, slots=True)
class AbortedId:
    """A transactional id as it was first and last seen. `decided` is the state seen in between that
    says how its transaction ends; None if none was open, or no such state was seen.

    If `after` is still the same open transaction, waiting for its partitions took too long.
    """

    before: DescribedTransaction
    after: DescribedTransaction
    decided: str | None

    @property
    def is_commit(self) -> bool:
        return self.decided is not None and self.decided.endswith("Commit")

    @property
    def is_ended(self) -> bool:
        """Whether all partitions have their markers; the next transaction may be open by now."""
        is_next = self.after.state == UNDECIDED and (
            self.decided is not None or self.after.start_ms != self.before.start_ms
        )
        return is_next or not self.after.is_open


def abort_what_is_open(
    links: ClusterLinks, name: str, *, now_s: Callable[[], float] = time.monotonic
) -> AbortedId | None:
    """Abort the open transaction of an id, and wait up to PATIENCE_S until all its partitions have
    their markers; None if nobody uses the id.

    Raises OSError, KafkaError, ClientError.
    """
    give_up_s = now_s() + PATIENCE_S
    before = describe_transaction(links, name)
    if before is None:
        return None
    done = AbortedId(before, before, None)
    while not done.is_ended and now_s() < give_up_s:
        if done.after.state == UNDECIDED:
            _shut_out(links, name)
        links.sleep(_PAUSE_S)
        after = describe_transaction(links, name)
        if after is None:  # the coordinator has forgotten an id that had expired
            break
        decided = after.state if after.state in _DECISIONS else done.decided
        done = AbortedId(before, after, decided)
    return done


def sentence_of_abort(done: AbortedId) -> str:
    """Return the sentence about what became of a transaction."""
    before, after = done.before, done.after
    name = shown(before.transactional_id)
    if not before.is_open:
        return f"{name}: no transaction is open, it is {before.state}; nobody was shut out"
    whose = f"{name}: the transaction of producer {before.producer_id}, epoch"
    whose = f"{whose} {before.producer_epoch}, in {named(before.partitions) or 'no partition'}"
    if done.decided is None:
        return f"{whose} has ended meanwhile"
    if done.is_commit:
        return f"{whose} was not aborted: it had been committed"
    if (after.producer_id, after.producer_epoch) == (before.producer_id, before.producer_epoch):
        return f"{whose} is aborted"
    return f"{whose} is aborted; that epoch is shut out (now {after.producer_epoch})"


def _shut_out(links: ClusterLinks, name: str) -> None:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_TIMEOUT_MS)
    _, answer = ask_coordinator(links, name, request, TRANSACTIONAL_ID)
    code = ErrorCode(answer.error_code)
    if code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
        raise KafkaError(code, f"transactional id {name}")
