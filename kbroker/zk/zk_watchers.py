"""Readings repeated at every change (`RepeatedReading`) or new session (`on_new_session`), and
change notifications: numbered nodes under one parent that every broker reads in order (Kafka's
ZkNodeChangeNotificationListener), used for /config/changes.

Law: each notification is handled once, in the order of its number, also across broken connections
and new sessions; notifications older than 15 minutes are removed by whoever sees them. A parent
that was removed by hand is created again, and its numbers start over.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from heapq import merge
from operator import itemgetter

from kbroker.clock import Clock
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turn
from kbroker.zk.tree import (
    NodeExistsError,
    NoNodeError,
    SessionState,
    Tree,
    TreeError,
    TreeUnavailableError,
    WatchEvent,
)
from kbroker.zk.zk_paths import ZnodeFormatError, sequence_number

_log = logging.getLogger(__name__)

CHANGE_EXPIRATION_MS = 15 * 60 * 1000
RETRY_BACKOFF_S = 1.0
_READ_AT_ONCE = 1_000  # names of notifications: a millisecond
NotificationHandler = Callable[[bytes | None], None]


class RepeatedReading:
    """Reads nodes again whenever a watch on them has fired, `on_event`, or somebody says so, one
    reading at a time. One that fails is repeated until the tree can be read.

    Owned by the event loop.
    """

    def __init__(self, what: str, read: Callable[[], Awaitable[None]]) -> None:
        """`read` sets the watches again; `what` names its subject in the log."""
        self._what = what
        self._read = read
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read at each event from now on."""
        self._task = asyncio.create_task(self._run(), name=self._what)

    async def stop(self) -> None:
        """Read no more; returns when no reading is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def on_event(self, _event: WatchEvent) -> None:
        """Read again: a watched node has changed."""
        self._changed.set()

    def again(self) -> None:
        """Read once more, soon."""
        self._changed.set()

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._read()
            except TreeError as error:
                # Perhaps nothing watches now: look again, or no change would ever be seen.
                _log.warning("%s cannot be read now: %r", self._what, error)
                await asyncio.sleep(RETRY_BACKOFF_S)
                self._changed.set()


def on_new_session(tree: Tree, call: Callable[[], None]) -> None:
    """Have this called whenever a session was lost and there is another one: what happened in
    between has been seen by no watch, and its notifications may be gone.
    """
    session_id = tree.session_id

    def look(state: SessionState) -> None:
        nonlocal session_id
        if state is SessionState.CONNECTED and tree.session_id != session_id:
            session_id = tree.session_id
            call()

    tree.add_session_listener(look)


class ChangeNotificationWatcher:
    """Reads the notifications under `root` and hands their data to `on_change`. Owned by the event
    loop.

    Notifications that exist at `start` are not handled: the caller reads the whole state
    afterwards.
    """

    def __init__(self, tree: Tree, root: str, on_change: NotificationHandler, clock: Clock) -> None:
        self._tree = tree
        self._root = root
        self._on_change = on_change
        self._clock = clock
        self._root_czxid = -1
        self._last_number = -1
        self._reading = RepeatedReading(f"notifications of {root}", self._read_new)

    async def start(self) -> None:
        """Remember the latest notification, and follow them from here on."""
        found = await self._notifications()
        numbers = [notifications[-1][0] for notifications in found]
        self._last_number = max([self._last_number, *numbers])
        self._reading.start()

    async def stop(self) -> None:
        await self._reading.stop()

    async def _read_new(self) -> None:
        found = await self._notifications()
        new = [(number, path) for some in found for number, path in self._new_of(some)]
        for count, (number, path) in enumerate(sorted(new), 1):
            await self._handle(path)
            self._last_number = number
            if count % ENTRIES == 0:
                await turn()
        await self._purge(path for _, path in merge(*found))

    def _new_of(self, notifications: list[tuple[int, str]]) -> list[tuple[int, str]]:
        return notifications[bisect_right(notifications, self._last_number, key=itemgetter(0)) :]

    async def _notifications(self) -> list[list[tuple[int, str]]]:
        """Numbers and paths of all notifications: some at a time, each of these in order; other
        nodes are not kbroker's.
        """
        while True:
            with suppress(NoNodeError):
                names = await self._tree.children(self._root, self._reading.on_event)
                _, stat = await self._tree.get(self._root)
                break
            with suppress(NodeExistsError):
                await self._tree.create(self._root, make_parents=True)
        if stat.czxid != self._root_czxid:
            self._root_czxid, self._last_number = stat.czxid, -1
        found = []
        for some in slices(names, _READ_AT_ONCE):
            notifications = []
            for name in some:
                with suppress(ZnodeFormatError):
                    notifications.append((sequence_number(name), f"{self._root}/{name}"))
            if notifications:
                found.append(sorted(notifications))
            if len(names) > _READ_AT_ONCE:
                await turn()
        return found

    async def _handle(self, path: str) -> None:
        try:
            data, _ = await self._tree.get(path)
        except NoNodeError:
            return  # removed as too old by another broker
        try:
            self._on_change(data)
        except ZnodeFormatError as error:
            _log.error("ignoring notification %s: %s", path, error)

    async def _purge(self, paths: Iterable[str]) -> None:
        oldest_ms = self._clock.now_ms() - CHANGE_EXPIRATION_MS
        for count, path in enumerate(paths, 1):
            if count % ENTRIES == 0:
                await turn()
            stat = await self._tree.exists(path)
            if stat is not None and stat.ctime_ms >= oldest_ms:
                return  # the paths are in the order of creation
            try:
                await self._tree.delete(path)
            except TreeUnavailableError:
                raise
            except TreeError:
                continue  # removed by another broker, or given children by hand
