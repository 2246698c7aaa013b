"""kazoo's client in its own thread: requests go in from the event loop, and answers, watch events
and changes of the session come back to it in the order in which the server sent them.

Law: a request that was taken is answered exactly once, if only with AnswerLostError. kazoo connects
again by itself, with the same session while there is one; should its thread ever end unexpectedly,
another client takes the session over. A session never uses a request number (xid) twice.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import select
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EventType as KazooEventType
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from kbroker.zk.ensemble.kazoo_requests import Request
from kbroker.zk.tree import EventType

_log = logging.getLogger(__name__)

_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_RESTART_DELAY_S = 1.0
_NOT_A_REASON = {"Transition to CONNECTING", "Session has expired"}
_EVENT_TYPES = {
    KazooEventType.CREATED: EventType.CREATED,
    KazooEventType.DELETED: EventType.DELETED,
    KazooEventType.CHANGED: EventType.DATA_CHANGED,
    KazooEventType.CHILD: EventType.CHILDREN_CHANGED,
}

_connection_numbers = itertools.count(1)

OnAnswer = Callable[[Any, Exception | None], None]


class ConnectionListener(Protocol):
    """Callbacks for changes of the connection, on the event loop."""

    def on_connected(self, session_id: int) -> None:
        """The connection has a session: the one before, or a new one."""
        ...

    def on_suspended(self, last_zxid: int) -> None:
        """The connection broke; all changes up to `last_zxid` had been reported."""
        ...

    def on_lost(self, last_zxid: int) -> None: ...

    def on_watch(self, event_type: EventType, path: str) -> None: ...


class Connection(Protocol):
    """The way to an ensemble."""

    @property
    def last_zxid(self) -> int:
        """The newest transaction named in an answer; starts over with a session."""
        ...

    @property
    def last_complaint(self) -> str:
        """The reason why there is no connection, or was none."""
        ...

    def start(self) -> None: ...

    def submit(self, request: Request, on_answer: OnAnswer) -> bool:
        """Send a request; False if there is no connection (nobody is called then).

        `on_answer` is called on the event loop with the answer, or kazoo's error.
        """
        ...

    async def close(self, timeout_s: float) -> None:
        """End the session; gives up waiting after `timeout_s`."""
        ...


class KazooConnection:
    """A connection by one kazoo client after the other. Owned by the event loop."""

    def __init__(self, hosts: str, session_timeout_ms: int, listener: ConnectionListener) -> None:
        self._hosts = hosts
        self._session_timeout_ms = session_timeout_ms
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._awake = False
        self._closed = False
        self._restart: asyncio.TimerHandle | None = None
        self._connection_number = 0  # of the client that the listener knows of
        self._logger = _LastWarning()
        self._client = self._new_client(None)

    @property
    def last_zxid(self) -> int:
        """The newest transaction named in an answer of this session."""
        return int(self._client.last_zxid)

    @property
    def last_complaint(self) -> str:
        """The last words of kazoo about a connection that failed or broke."""
        return self._logger.last

    def start(self) -> None:
        self._client.start_async()

    def submit(self, request: Request, on_answer: OnAnswer) -> bool:
        """Send a request; False if there is no connection (nobody is called then).

        `on_answer` is called on the event loop with the answer, or kazoo's error.
        """
        return self._client.submit(request, on_answer, self._connection_number)

    async def close(self, timeout_s: float) -> None:
        """End the session and the thread; gives up waiting for either after `timeout_s`."""
        self._closed = True
        if self._restart is not None:
            self._restart.cancel()
        done = asyncio.Event()
        stopping = threading.Thread(
            target=self._stop, args=(self._client, done), name="kazoo-stop", daemon=True
        )
        stopping.start()
        try:
            async with asyncio.timeout(timeout_s):
                await done.wait()
        except TimeoutError:
            _log.warning("ZooKeeper at %s does not know that the session is closed", self._hosts)

    def post(self, function: Callable[..., None], *args: Any) -> None:
        """Have a function called on the event loop, after all posted before. For any thread."""
        self._inbox.append((function, args))
        if not self._awake:
            self._awake = True
            self._wake()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to call
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._awake = False  # first: what is posted from here on may need another round
        try:
            while self._inbox:
                function, args = self._inbox.popleft()
                function(*args)
        finally:
            if self._inbox and not self._awake:
                self._awake = True
                self._wake()

    def _new_client(self, predecessor: _Client | None) -> _Client:
        client = _Client(
            self, self._hosts, self._session_timeout_ms / 1000, self._logger, predecessor
        )
        client.add_listener(client.on_state)
        return client

    def _stop(self, client: _Client, done: asyncio.Event) -> None:
        try:
            client.stop()
            client.close()
        except Exception as error:
            _log.debug("kazoo did not stop cleanly: %r", error)
        self.post(done.set)

    def on_connected(self, client: _Client, session_id: int, connection_number: int) -> None:
        """A client has a session; called from its thread through `post`."""
        if not self._closed and client is self._client:
            self._connection_number = connection_number
            self._listener.on_connected(session_id)

    def on_disconnected(self, client: _Client, state: str, zxid: int) -> None:
        """A client has no connection; called from its thread through `post`."""
        if self._closed or client is not self._client:
            return
        if state == KazooState.SUSPENDED:
            self._listener.on_suspended(zxid)
        else:
            self._listener.on_lost(zxid)

    def on_watch(self, client: _Client, event_type: EventType, path: str) -> None:
        """A watch event of a client; called from its thread through `post`."""
        if not self._closed and client is self._client:
            self._listener.on_watch(event_type, path)

    def on_thread_ended(self, client: _Client, error: BaseException | None) -> None:
        """The thread of a client ended, asked or not; called from that thread through `post`."""
        if self._closed or client is not self._client:
            return
        _log.error("the connection to ZooKeeper ended unexpectedly, connecting again: %r", error)
        self._restart = self._loop.call_later(_RESTART_DELAY_S, self._start_again)

    def _start_again(self) -> None:
        self._client.close()
        self._client = self._new_client(self._client)
        self._client.start_async()


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client, without threads for callbacks: its one thread hands everything on at once."""

    def __init__(
        self,
        connection: KazooConnection,
        hosts: str,
        timeout_s: float,
        logger: _LastWarning,
        predecessor: _Client | None,
    ) -> None:
        # No request may slip in while a broken connection is cleaned up: it would wait in kazoo's
        # queue and be done on the next connection, or be forgotten. Nobody may send one on a new
        # connection before its `on_connected`.
        self._gate = threading.RLock()
        self._connection_number = 0
        # kazoo counts requests again with each connection. To a server that is not a leader, the
        # outcome of an old connection's request is that of the new one's with the same number.
        self._last_xid: int = 0 if predecessor is None else predecessor._last_xid
        self._session: tuple[int, bytes] | None = (
            None if predecessor is None else predecessor._session
        )
        self._post = connection.post
        self._owner = connection
        handler = _Handler(timeout_s, self._thread_ended)
        super().__init__(
            hosts=hosts,
            timeout=timeout_s,
            client_id=self._session,
            handler=handler,
            connection_retry=KazooRetry(sleep_func=handler.sleep_func, **_RETRY),
            command_retry=KazooRetry(sleep_func=handler.sleep_func),
            logger=logger,
        )
        handler.hosts = len(self.hosts)

    def submit(self, request: Request, on_answer: OnAnswer, connection_number: int) -> bool:
        with self._gate:
            if not self.connected or connection_number != self._connection_number:
                return False
            self._call(request, _Answer(self._post, on_answer))
            return True

    def on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._session = (self._session_id, self._session_passwd)
            self._connection._xid = self._last_xid
            self._connection_number = next(_connection_numbers)
            self._post(self._owner.on_connected, self, self._session_id, self._connection_number)
            return
        self._last_xid = max(self._last_xid, self._connection._xid or 0)
        if self._state == KeeperState.CLOSED:
            state = KazooState.SUSPENDED  # its thread ends; the session goes on with another client
        self._post(self._owner.on_disconnected, self, state, self.last_zxid)

    def _session_callback(self, state: str) -> None:
        with self._gate:
            super()._session_callback(state)

    def _reset_watchers(self) -> None:
        # The watches are known above; every event of the server is handed on.
        everything = _AnyWatcher(self._on_watch)
        self._data_watchers = everything
        self._child_watchers = everything

    def _on_watch(self, event: Any) -> None:
        event_type = _EVENT_TYPES.get(event.type)
        if event_type is not None:
            self._post(self._owner.on_watch, self, event_type, event.path)

    def _thread_ended(self, error: BaseException | None) -> None:
        self._post(self._owner.on_thread_ended, self, error)


class _Answer:
    """The result object into which kazoo puts the answer to a request."""

    __slots__ = ("_on_answer", "_post")

    def __init__(self, post: Callable[..., None], on_answer: OnAnswer) -> None:
        self._post = post
        self._on_answer: OnAnswer | None = on_answer

    def set(self, value: Any = None) -> None:
        self._finish(value, None)

    def set_exception(self, error: Exception) -> None:
        self._finish(None, error)

    def _finish(self, value: Any, error: Exception | None) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            self._post(on_answer, value, error)


class _AnyWatcher:
    """Stands in for kazoo's table of watches: it has the same watcher for every path."""

    def __init__(self, watcher: Callable[[Any], None]) -> None:
        self._watchers = (watcher,)

    def pop(self, _path: str, _default: object) -> tuple[Callable[[Any], None], ...]:
        return self._watchers

    def __getitem__(self, _path: str) -> _AnyWatcher:
        return self

    def add(self, watcher: object) -> None:
        """Nothing needs to be remembered."""


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads: only the connection's own, which runs callbacks itself."""

    def __init__(
        self, timeout_s: float, thread_ended: Callable[[BaseException | None], None]
    ) -> None:
        super().__init__()
        self.hosts = 1
        self._timeout_s = timeout_s
        self._thread_ended = thread_ended

    def start(self) -> None:
        self._running = True

    def stop(self) -> None:
        self._running = False

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, readers: list[Any], writers: list[Any], _other: list[Any], timeout_s: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        # kazoo makes a selector, which is a file, for each of the four calls per request.
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )

    def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        # A host that does not answer may not use up the time of the session alone.
        kwargs["timeout"] = self._timeout_s / self.hosts
        return super().create_connection(*args, **kwargs)

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> threading.Thread:
        def run() -> None:
            ended: BaseException | None = None
            try:
                func(*args, **kwargs)
            except Exception as error:
                ended = error  # reported below; kazoo ends its loop with errors of all kinds
            self._thread_ended(ended)

        thread = threading.Thread(target=run, name="kazoo", daemon=True)
        thread.start()
        return thread


class _LastWarning(logging.Logger):
    """kazoo's log, kept to its last sentence: the reason why there is no connection."""

    def __init__(self) -> None:
        super().__init__("kazoo", logging.WARNING)
        self.last = ""

    def handle(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if message not in _NOT_A_REASON:
            self.last = message
