"""A tree of znodes in this process: kept in memory, and in a directory if it is given one.

Law: every method but `multi_all` and `get_all` finishes without suspending, so that nobody sees
half a change; those two let others run in between. Sessions of several brokers may share one tree;
each sees the others' changes through watches, which are called from the event loop after the
change. At open, sessions of an earlier process are over, so their ephemeral nodes go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from kbroker.clock import Clock
from kbroker.counters import CounterRegistry
from kbroker.zk.embedded.data_tree import DataTree
from kbroker.zk.embedded.tree_journal import JournalEntry, TreeFiles, TreeJournal
from kbroker.zk.tree import (
    MAX_NODE_BYTES,
    CreateOp,
    DeleteOp,
    EventType,
    NodeTooLargeError,
    NoNodeError,
    Op,
    OpResult,
    SessionExpiredError,
    SessionListener,
    SessionState,
    SetOp,
    Stat,
    Tree,
    TreeError,
    TreeUnavailableError,
    Watch,
    WatchEvent,
)

_log = logging.getLogger(__name__)

# Above this, a snapshot at open or close makes the next start quicker.
_COMPACT_IDLE_BYTES = 1 << 20
_TURN_OPERATIONS = 64  # of a long row, then others get their turn: about a millisecond
_Watches = dict[str, dict[tuple["TreeSession", Watch], None]]
_DATA_EVENTS = frozenset({EventType.CREATED, EventType.DELETED, EventType.DATA_CHANGED})
_CHILD_EVENTS = frozenset({EventType.CHILDREN_CHANGED, EventType.DELETED})


class EmbeddedTree:
    """The store. Owned by the event loop.

    `files` is the directory to keep it in (None: memory only). Raises CorruptTreeError for files
    that are not a tree, and TreeUnavailableError when the directory cannot be read or written.
    """

    def __init__(
        self,
        clock: Clock,
        files: TreeFiles | None = None,
        *,
        compact_bytes: int = 4 << 20,
    ) -> None:
        self._clock = clock
        self._journal = (
            TreeJournal(files, compact_bytes=compact_bytes) if files is not None else None
        )
        self._tree, self._zxid = self._journal.load() if self._journal else (DataTree(), 0)
        self._sessions: dict[int, TreeSession] = {}
        self._data_watches: _Watches = {}
        self._child_watches: _Watches = {}
        for session_id in list(self._tree.ephemerals):
            self._drop_ephemerals(session_id)
        self._compact_when_idle()

    @property
    def zxid(self) -> int:
        return self._zxid

    def session(self) -> TreeSession:
        """Open a session. Its id is the zxid of its opening, so no two sessions ever share one."""
        session = TreeSession(self, self._new_session_id())
        self._sessions[session.session_id] = session
        return session

    def _new_session_id(self) -> int:
        self._commit((), session_id=0, lazy=True)  # the session ends with this process
        return self._zxid

    def close(self) -> None:
        """End all sessions and close the files."""
        for session in list(self._sessions.values()):
            session.expire()
        if self._journal:
            if self._journal.is_doubtful:
                self._compact(self._journal)
            self._compact_when_idle()
            self._journal.close()
            self._journal = None

    def dump(self) -> list[tuple[str, bytes | None, Stat]]:
        """Every node with path, data and stat, parents first."""
        return [(path, node.data, node.stat()) for path, node in self._tree.walk()]

    def _commit(self, ops: Sequence[Op], session_id: int, *, lazy: bool = False) -> list[OpResult]:
        if self._journal and self._journal.is_doubtful:
            self._journal.compact(self._tree, self._zxid)
        zxid = self._zxid + 1
        now_ms = self._clock.now_ms()
        done = self._tree.apply(ops, zxid, now_ms, session_id)
        if self._journal:
            try:
                entry = JournalEntry(zxid, now_ms, session_id, done.ops)
                self._journal.append(entry, lazy=lazy)
            except BaseException:
                done.take_back()
                raise
        self._zxid = zxid
        for event in done.events:
            self._fire(event)
        if self._journal and self._journal.wants_compaction:
            self._compact(self._journal)
        return done.results

    def _flush(self) -> None:
        if self._journal and self._journal.is_doubtful:
            self._journal.compact(self._tree, self._zxid)
        elif self._journal:
            self._journal.flush()

    def _compact_when_idle(self) -> None:
        if self._journal and self._journal.size_bytes > _COMPACT_IDLE_BYTES:
            self._compact(self._journal)

    def _compact(self, journal: TreeJournal) -> None:
        try:
            journal.compact(self._tree, self._zxid)
        except TreeUnavailableError:
            # The transaction is in the journal; the caller must not hear otherwise.
            _log.exception("the journal of the tree stays as long as it is")

    def _drop_ephemerals(self, session_id: int) -> None:
        paths = self._tree.ephemerals.get(session_id)
        if paths:
            self._commit([DeleteOp(path) for path in paths], session_id)

    def _fire(self, event: WatchEvent) -> None:
        # A watch set for data and for children on one path hears of the delete once.
        watchers: dict[tuple[TreeSession, Watch], None] = {}
        if event.type in _DATA_EVENTS:
            watchers.update(self._data_watches.pop(event.path, {}))
        if event.type in _CHILD_EVENTS:
            watchers.update(self._child_watches.pop(event.path, {}))
        if watchers:
            call_soon = asyncio.get_running_loop().call_soon
            for session, watch in watchers:
                call_soon(session._deliver, watch, event)

    def _end(self, session: TreeSession) -> None:
        self._sessions.pop(session.session_id, None)
        self._drop_ephemerals(session.session_id)

    def _forget_watches(self, session: TreeSession) -> None:
        for watches in (self._data_watches, self._child_watches):
            for path in list(watches):
                kept = {key: None for key in watches[path] if key[0] is not session}
                if kept:
                    watches[path] = kept
                else:
                    del watches[path]


class TreeSession(Tree):
    """One session over an embedded tree, and those that follow it.

    Nothing ends or interrupts it by itself; `expire` and `suspend` do what an ensemble does to its
    clients.
    """

    def __init__(self, store: EmbeddedTree, session_id: int) -> None:
        self._store = store
        self._session_id = session_id
        self._state = SessionState.CONNECTED
        self._closed = False
        self._listeners: list[SessionListener] = []
        self._missed: list[tuple[Watch, WatchEvent]] = []  # while it was not connected

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        node = self._tree(path).require(path)
        if watch is not None:
            self._store._data_watches.setdefault(path, {})[self, watch] = None
        return node.data, node.stat()

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        node = self._tree(path).find(path)
        if watch is not None:
            self._store._data_watches.setdefault(path, {})[self, watch] = None
        return node.stat() if node is not None else None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        node = self._tree(path).require(path)
        if watch is not None:
            self._store._child_watches.setdefault(path, {})[self, watch] = None
        return sorted(node.children) if node.children else []

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        return self._commit(ops)

    async def multi_all(
        self, transactions: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | TreeError]:
        outcomes: list[list[OpResult] | TreeError] = []
        for number, ops in enumerate(transactions, start=1):
            try:
                outcomes.append(self._commit(ops, lazy=True))
            except TreeUnavailableError:
                raise
            except TreeError as error:
                outcomes.append(error.with_traceback(None))  # or it would hold `outcomes`
            if number % _TURN_OPERATIONS == 0:
                await asyncio.sleep(0)
        self._store._flush()  # one sync for all
        return outcomes

    async def get_all(
        self, paths: Sequence[str], watch: Watch | None = None
    ) -> list[tuple[bytes | None, Stat] | None]:
        found: list[tuple[bytes | None, Stat] | None] = []
        for number, path in enumerate(paths, start=1):
            try:
                found.append(await self.get(path, watch))
            except NoNodeError:
                found.append(None)
            if number % _TURN_OPERATIONS == 0:
                await asyncio.sleep(0)
        return found

    def register(self, counters: CounterRegistry) -> None:  # noqa: ARG002  nothing is measured
        return

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        """End the session for good. No listener is called: the owner asked for it."""
        if self._closed:
            return
        self._closed = True
        if self._state is not SessionState.LOST:
            self._store._end(self)
        self._state = SessionState.LOST
        self._store._forget_watches(self)
        self._missed.clear()

    def expire(self) -> None:
        """End the session as an ensemble does with a silent client."""
        if not self._closed and self._state is not SessionState.LOST:
            self._store._end(self)
            self._turn(SessionState.LOST)

    def renew(self) -> None:
        """Open the session that follows one that was lost."""
        assert self._state is SessionState.LOST
        assert not self._closed
        self._session_id = self._store._new_session_id()
        self._store._sessions[self._session_id] = self
        self._connect()

    def suspend(self) -> None:
        """Cut the connection; the session lives on."""
        assert self._state is SessionState.CONNECTED
        self._turn(SessionState.SUSPENDED)

    def resume(self) -> None:
        """Connect again, in time."""
        assert self._state is SessionState.SUSPENDED
        self._connect()

    def _connect(self) -> None:
        self._turn(SessionState.CONNECTED)
        missed, self._missed = self._missed, []
        for watch, event in missed:
            asyncio.get_running_loop().call_soon(self._deliver, watch, event)

    def _turn(self, state: SessionState) -> None:
        self._state = state
        for listener in list(self._listeners):
            listener(state)

    def _check(self, path: str) -> None:
        if self._closed or self._state is SessionState.LOST:
            raise SessionExpiredError(path)
        if self._state is SessionState.SUSPENDED:
            raise TreeUnavailableError(path)

    def _tree(self, path: str) -> DataTree:
        self._check(path)
        return self._store._tree

    def _commit(self, ops: Sequence[Op], *, lazy: bool = False) -> list[OpResult]:
        self._check(ops[0].path if ops else "")
        for index, op in enumerate(ops):
            if isinstance(op, CreateOp | SetOp) and len(op.data or b"") > MAX_NODE_BYTES:
                raise NodeTooLargeError(op.path, index)
        return self._store._commit(ops, self._session_id, lazy=lazy)

    def _deliver(self, watch: Watch, event: WatchEvent) -> None:
        if self._closed:
            return
        if self._state is SessionState.CONNECTED:
            watch(event)
        else:
            self._missed.append((watch, event))
