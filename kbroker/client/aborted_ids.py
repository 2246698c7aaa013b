"""The end of what a producer that is gone has left open under its transactional id.

Law: nothing is made and nobody shut out where nothing is open: a coordinator makes an id that a
producer comes with, so it is asked what there is first. A producer that comes with an id shuts out
the one before it, and has aborted what that one had open, unless it was decided.
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

PATIENCE_S = 60.0
_PAUSE_S = 0.1
_DECISIONS = ("PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
# Of the producer that comes here, which writes nothing: no broker finds this too long.
_TIMEOUT_MS = 1


@dataclass(frozen=True, slots=True)
class AbortedId:
    """A transactional id when it was looked at first and last, and the state that showed in between
    how its transaction ends; None if none was open, or none did.

    While `after` is the same transaction still, partitions were waited for in vain.
    """

    before: DescribedTransaction
    after: DescribedTransaction
    decided: str | None

    @property
    def is_commit(self) -> bool:
        """Whether its producer had decided so."""
        return self.decided is not None and self.decided.endswith("Commit")

    @property
    def is_ended(self) -> bool:
        """Whether all its partitions have been told, if one was open: the next may be by now."""
        is_next = self.after.state == UNDECIDED and (
            self.decided is not None or self.after.start_ms != self.before.start_ms
        )
        return is_next or not self.after.is_open


def abort_what_is_open(
    links: ClusterLinks,
    name: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_s: Callable[[], float] = time.monotonic,
) -> AbortedId | None:
    """Abort it, and wait up to PATIENCE_S until all its partitions have been told; None if
    nobody uses the id.

    Raises OSError, KafkaError, ClientError.
    """
    give_up_s = now_s() + PATIENCE_S
    before = describe_transaction(links, name, sleep)
    if before is None:
        return None
    done = AbortedId(before, before, None)
    while not done.is_ended and now_s() < give_up_s:
        if done.after.state == UNDECIDED:
            _shut_out(links, name, sleep)
        sleep(_PAUSE_S)
        after = describe_transaction(links, name, sleep)
        if after is None:  # the coordinator has forgotten an id that had expired
            break
        decided = after.state if after.state in _DECISIONS else done.decided
        done = AbortedId(before, after, decided)
    return done


def _shut_out(links: ClusterLinks, name: str, sleep: Callable[[float], None]) -> None:
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=_TIMEOUT_MS)
    answer = ask_coordinator(
        links, name, request, lambda found: (found.error_code,), sleep, TRANSACTIONAL_ID
    )
    code = ErrorCode(answer.error_code)
    if code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
        raise KafkaError(code, f"transactional id {name}")
