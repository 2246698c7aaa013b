"""The transactional ids of one partition of `__transaction_state`, as the runtime drives them.

Law: owned by the event loop. The newest record of an id tells its state, and a tombstone that it is
gone; a record that cannot be read changes nothing. A record above the high watermark may be lost
with this broker, so what it says is pending, as if this broker had just written it. Work that is
under way for an id ends with the leadership of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from kbroker.coordinator.held_tasks import HeldTasks
from kbroker.coordinator.shard import Shard
from kbroker.coordinator.transaction.decisions import TransactionEntry
from kbroker.coordinator.transaction.records import read_transaction, read_transaction_log_key
from kbroker.errors import ProtocolError


class KeptTransaction:
    """A transactional id and where it is kept."""

    __slots__ = ("entry", "home")

    def __init__(self, entry: TransactionEntry, home: TransactionMachine) -> None:
        self.entry = entry
        self.home = home

    @property
    def transactional_id(self) -> str:
        """Its name."""
        return self.entry.transaction.transactional_id


class TransactionMachine:
    """The transactional ids of one partition, as the runtime drives them."""

    def __init__(self, shard: TransactionShard, loaded: Heard, resigned: Heard) -> None:
        """`loaded` and `resigned` are told with this machine."""
        self.shard = shard
        self.kept: dict[str, KeptTransaction] = {}
        self.is_led = True
        self._loaded = loaded
        self._resigned = resigned
        self._tasks = HeldTasks()

    # ---- loading

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, _producer_id: int | None
    ) -> None:
        """Take in one record: the state of an id, or that it is gone.

        ProtocolError for one that is not understood.
        """
        if key is None:
            raise ProtocolError("a record without a key")
        transactional_id = read_transaction_log_key(key).transactional_id
        if value is None:
            self.kept.pop(transactional_id, None)
            return
        entry = TransactionEntry(read_transaction(transactional_id, value))
        if batch_offset >= self.shard.log.high_watermark:
            entry.pending = entry.transaction
        self.kept[transactional_id] = KeptTransaction(entry, self)

    def marker(self, _producer_id: int, _is_commit: bool) -> None:
        """Ignore it: nobody writes this topic within transactions."""

    def open_producers(self) -> tuple[()]:
        """None, for the same reason."""
        return ()

    def finish_load(self) -> Iterator[None]:
        """Nothing is left to do."""
        return iter(())

    def on_loaded(self) -> None:
        """The ids can be used."""
        self._loaded(self)

    def on_resigned(self) -> None:
        """The ids are coordinated elsewhere: nothing is sent any more."""
        self.is_led = False
        self._resigned(self)
        self._tasks.cancel()

    # ---- work

    def run(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine, for as long as this broker leads the partition."""
        self._tasks.start(work, name)


TransactionShard = Shard[TransactionMachine]
Heard = Callable[[TransactionMachine], None]
