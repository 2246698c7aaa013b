"""The upkeep of transactions that nobody cares for: time-outs and expiry.

Law: both go through all ids in slices, at their own intervals, and decide on each id as it is when
its turn comes. An id is not forgotten if its partition could not be read completely.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from kbroker.config.transaction_config import TransactionConfig
from kbroker.coordinator.transaction.decisions import fence
from kbroker.coordinator.transaction.machine import KeptTransaction, TransactionMachine
from kbroker.coordinator.transaction.store import TransactionStore
from kbroker.coordinator.transaction.transaction import Transaction
from kbroker.errors import ErrorCode
from kbroker.events.event import Note, nobody_notes

_log = logging.getLogger(__name__)

_MAX_TOMBSTONES = 500  # in one write


class TransactionUpkeep:
    """Owned by the event loop."""

    def __init__(
        self,
        config: TransactionConfig,
        store: TransactionStore,
        note: Note = nobody_notes,
    ) -> None:
        self._config = config
        self._note = note
        self._store = store
        self._runtime = store.runtime

    def start(self) -> None:
        """Begin to look for transactions out of time, and for ids that nobody uses."""
        self._every(
            self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            self._time_out,
            "time-outs of transactions",
        )
        self._every(
            self._config.transaction_remove_expired_transaction_cleanup_interval_ms,
            self._expire,
            "expiry of transactional ids",
        )

    def _every(self, interval_ms: int, steps: Callable[[], Iterator[None]], name: str) -> None:
        def fire() -> None:
            self._every(interval_ms, steps, name)
            self._runtime.run_sliced(steps(), name)

        self._runtime.set_timer(name, self._runtime.monotonic_ms() + interval_ms, fire)

    # ---- time-outs

    def _time_out(self) -> Iterator[None]:
        for kept in self._store:
            entry = kept.entry
            is_free = kept.home.is_led and entry.pending is None
            if is_free and entry.transaction.is_timed_out(self._runtime.now().wall_ms):
                aborted = partial(self._aborted, entry.transaction)
                self._store.abort(kept, fence(entry), aborted)
            yield

    def _aborted(self, transaction: Transaction, error: ErrorCode) -> None:
        from kbroker.coordinator.transaction.fencing import timed_out  # hardly ever needed

        if error is ErrorCode.NONE:
            self._note(timed_out(transaction))
        else:
            _log.warning(
                "Transaction %s has taken too long, and cannot be aborted yet: %s",
                transaction.transactional_id,
                error.name,
            )

    # ---- expiry

    def _expire(self) -> Iterator[None]:
        after_ms = self._config.transactional_id_expiration_ms
        for home in self._store.homes():
            if self._runtime.may_forget(home.shard.topic_partition, after_ms):
                yield from self._expire_in(home, after_ms)

    def _expire_in(self, home: TransactionMachine, after_ms: int) -> Iterator[None]:
        expired: list[KeptTransaction] = []
        for kept in list(home.kept.values()):
            yield
            if not home.is_led:
                return
            if kept.entry.transaction.is_expired(self._runtime.now().wall_ms, after_ms):
                expired.append(kept)
            if len(expired) == _MAX_TOMBSTONES:
                self._forget(home, expired)
                expired = []
        self._forget(home, expired)

    def _forget(self, home: TransactionMachine, expired: list[KeptTransaction]) -> None:
        """Forget the ids that nobody has begun to use since."""
        now_ms = self._runtime.now().wall_ms
        after_ms = self._config.transactional_id_expiration_ms
        unused = [
            kept
            for kept in expired
            if kept.entry.pending is None and kept.entry.transaction.is_expired(now_ms, after_ms)
        ]
        if unused:
            self._store.forget(home, unused)
