"""The transactional ids of one partition of `__transaction_state`, as the runtime drives them.

Pure. Law: owned by the event loop. The newest record of an id holds its state, and a tombstone
means that it is gone; a record that cannot be read changes nothing. So a record that is followed by
another of its id is not decoded, unless the later one cannot be read. A record above the high
watermark may be lost with this broker, so what it says is pending, as if this broker had just
written it. Work that is under way for an id ends with the leadership of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any

from kbroker.coordinator.runtime.held_tasks import HeldTasks
from kbroker.coordinator.runtime.shard import Shard
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
        return self.entry.transaction.transactional_id


class TransactionMachine:
    """The transactional ids of one partition, as the runtime drives them."""

    def __init__(self, shard: TransactionShard, loaded: Heard, resigned: Heard) -> None:
        """`loaded` and `resigned` are called with this machine."""
        self.shard = shard
        self.kept: dict[str, KeptTransaction] = {}
        self.to_go_on: list[KeptTransaction] = []  # after the load: what is pending, or ends
        self._ids: dict[bytes, str] = {}  # by the keys that name them
        self._newest: dict[str, tuple[bytes, int]] = {}  # value and offset of its batch, by id
        self._reads_each = False  # also a value that another one follows
        self.is_led = True
        self._loaded = loaded
        self._resigned = resigned
        self._tasks = HeldTasks()

    # ---- loading

    def record(
        self, key: bytes | None, value: bytes | None, batch_offset: int, _producer_id: int | None
    ) -> None:
        """Take in one record: the state of an id, or that it is gone.

        ProtocolError for a key that is not understood; values are decoded at the end of the load.
        """
        if key is None:
            raise ProtocolError("a record without a key")
        transactional_id = self._ids.get(key)
        if transactional_id is None:
            transactional_id = read_transaction_log_key(key).transactional_id
        if value is None:
            self._ids.pop(key, None)
            self._newest.pop(transactional_id, None)
            return
        if self._reads_each:
            read_transaction(transactional_id, value)
        self._ids[key] = transactional_id
        self._newest[transactional_id] = value, batch_offset

    def marker(self, _producer_id: int, _is_commit: bool) -> None:
        """Ignore it: nobody writes this topic within transactions."""

    def open_producers(self) -> tuple[()]:
        """None, for the same reason."""
        return ()

    def finish_load(self) -> Generator[None, None, bool]:
        """Read the newest record of each id. Where one is not understood, what the log says before
        it holds: all is to be read once more, record by record.
        """
        high_watermark = self.shard.log.high_watermark
        while self._newest:
            transactional_id, (value, batch_offset) = self._newest.popitem()
            self._ids.popitem()  # there are no fewer keys; all at once would hold the loop
            try:
                entry = TransactionEntry(read_transaction(transactional_id, value))
            except Exception:  # whatever it is, the replay reports it
                self._begin_again()
                return False
            if batch_offset >= high_watermark:
                entry.pending = entry.transaction
            kept = self.kept[transactional_id] = KeptTransaction(entry, self)
            if entry.pending is not None or entry.transaction.state.is_ending:
                self.to_go_on.append(kept)
            yield
        self._ids.clear()
        return True

    def _begin_again(self) -> None:
        assert not self._reads_each, "each value was read before it was kept"
        self._reads_each = True
        for held in (self.kept, self.to_go_on, self._ids, self._newest):
            held.clear()

    def on_loaded(self) -> None:
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
