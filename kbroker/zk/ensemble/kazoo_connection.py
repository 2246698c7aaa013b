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
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from kazoo.client import KazooClient, KazooState
from kazoo.protocol.states import EventType as KazooEventType
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from kbroker.config.zk_access import ZkAccess
from kbroker.zk.ensemble.kazoo_parts import AnyWatcher, KazooThreads, LastWarning, LoggingIn
from kbroker.zk.ensemble.kazoo_requests import Request
from kbroker.zk.ensemble.tls_connector import TlsConnector
from kbroker.zk.tree import EventType

_log = logging.getLogger(__name__)

_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}
_RESTART_DELAY_S = 1.0
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

    def on_login_refused(self) -> None:
        """The ensemble does not take the login; it is tried again and again."""
        ...

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


MakeConnection = Callable[[str, int, ConnectionListener, ZkAccess], Connection]


class KazooConnection:
    """A connection by one kazoo client after the other. Owned by the event loop."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        listener: ConnectionListener,
        access: ZkAccess,
    ) -> None:
        """Raises ConfigError for files of TLS that are no use."""
        self.hosts = hosts
        self.access = access
        self.tls = None if access.tls is None else TlsConnector(access.tls)
        self.session_timeout_ms = session_timeout_ms
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._awake = False
        self._closed = False
        self._restart: asyncio.TimerHandle | None = None
        self._connection_number = 0  # of the client that the listener knows of
        self._login_refused = False  # to the client that ends now
        self.logger = LastWarning()
        self._client = self._new_client(None)

    @property
    def last_zxid(self) -> int:
        """The newest transaction named in an answer of this session."""
        return int(self._client.last_zxid)

    @property
    def last_complaint(self) -> str:
        """The last words of kazoo about a connection that failed or broke."""
        last = self.logger.last
        return last if self.tls is None else self.tls.explained(last)

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
            _log.warning("ZooKeeper at %s does not know that the session is closed", self.hosts)

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
        client = _Client(self, predecessor)
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

    def on_login_refused(self, client: _Client) -> None:
        """A client may not log in, and ends; called from its thread through `post`."""
        if not self._closed and client is self._client:
            self._login_refused = True
            self._listener.on_login_refused()

    def on_watch(self, client: _Client, event_type: EventType, path: str) -> None:
        """A watch event of a client; called from its thread through `post`."""
        if not self._closed and client is self._client:
            self._listener.on_watch(event_type, path)

    def on_thread_ended(self, client: _Client, error: BaseException | None) -> None:
        """The thread of a client ended, asked or not; called from that thread through `post`."""
        if self._closed or client is not self._client:
            return
        if not self._login_refused:
            _log.error(
                "the connection to ZooKeeper ended unexpectedly, connecting again: %r", error
            )
        self._login_refused = False
        self._restart = self._loop.call_later(_RESTART_DELAY_S, self._start_again)

    def _start_again(self) -> None:
        self._client.close()
        self._client = self._new_client(self._client)
        self._client.start_async()


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client, without threads for callbacks: its one thread hands everything on at once."""

    def __init__(self, connection: KazooConnection, predecessor: _Client | None) -> None:
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
        timeout_s, access = connection.session_timeout_ms / 1000, connection.access
        handler = KazooThreads(timeout_s, self._thread_ended, connection.tls)
        super().__init__(
            hosts=connection.hosts,
            timeout=timeout_s,
            client_id=self._session,
            handler=handler,
            connection_retry=KazooRetry(sleep_func=handler.sleep_func, **_RETRY),
            command_retry=KazooRetry(sleep_func=handler.sleep_func),
            logger=connection.logger,
            auth_data=_digest_of(access),
        )
        handler.hosts = len(self.hosts)
        self._connection = LoggingIn(
            self, self._conn_retry.copy(), connection.logger, _sasl_of(access)
        )

    def submit(self, request: Request, on_answer: OnAnswer, connection_number: int) -> bool:
        with self._gate:
            if not self.connected or connection_number != self._connection_number:
                return False
            self._call(request, _Answer(self._post, on_answer))
            return True

    def on_logged_in(self) -> None:
        """The connection has a session, and its login is done: requests may follow."""
        self._session = (self._session_id, self._session_passwd)
        self._post(self._owner.on_connected, self, self._session_id, self._connection_number)

    def on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connection._xid = self._last_xid
            self._connection_number = next(_connection_numbers)
            return
        if self._state == KeeperState.AUTH_FAILED:
            self._post(self._owner.on_login_refused, self)
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
        everything = AnyWatcher(self._on_watch)
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


def _digest_of(access: ZkAccess) -> list[tuple[str, str]]:
    login = access.digest
    return [] if login is None else [("digest", f"{login.username}:{login.password}")]


def _sasl_of(access: ZkAccess) -> dict[str, str] | None:
    login = access.sasl
    if login is None:
        return None
    return {"mechanism": "DIGEST-MD5", "username": login.username, "password": login.password}
