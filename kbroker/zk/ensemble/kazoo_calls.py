"""Requests to an ensemble in their order: sent, waiting, lost with the connection and recovered.

Law: requests are sent in the order in which they were made, at most `max_in_flight` without an
answer. A write is never under way together with one that it depends on (to the same node, or to one
it checks), so that it can be looked up, and repeated in its turn, if it was lost. Without a
connection all wait, at most as long as a session lives without one. After a new connection, in this
order: the server catches up (sync), all watches are set again, writes whose answer was lost are
looked up (`lost_write`), then everything goes on. If the session was lost, its requests fail, and
only the watches are kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kbroker.config.zk_access import ZkAccess
from kbroker.zk.ensemble import kazoo_requests as requests
from kbroker.zk.ensemble.ensemble_metrics import EnsembleMetrics
from kbroker.zk.ensemble.kazoo_connection import KazooConnection, MakeConnection
from kbroker.zk.ensemble.kazoo_requests import (
    AnswerLostError,
    LoginRefusedError,
    Request,
    whole_path,
)
from kbroker.zk.ensemble.kazoo_watches import Renewal, WatchTable
from kbroker.zk.ensemble.lost_write import (
    FoundNode,
    LostWrite,
    LostWriteLookup,
    Verdict,
    needed_paths,
    written_paths,
)
from kbroker.zk.ensemble.node_rights import open_rights, secure_rights
from kbroker.zk.tree import (
    EventType,
    NoNodeError,
    Op,
    OpResult,
    SessionExpiredError,
    SessionListener,
    SessionState,
    TreeError,
    TreeUnavailableError,
    Watch,
    WatchEvent,
)

_log = logging.getLogger(__name__)

_SUSPECT_PAUSE_S = 0.5


@dataclass(slots=True, eq=False)
class Call:
    """One request that somebody waits for. `parse` makes the result of kazoo's answer."""

    path: str
    request: Request
    parse: Callable[[Any], Any]
    future: asyncio.Future[Any]
    ops: Sequence[Op] = ()  # of a write
    written: Sequence[str] = ()
    needed: Sequence[str] = ()
    zxid_before: int = 0  # newest transaction known when a write was sent
    sent_s: float = 0.0  # loop time
    losses: int = 0  # how often it was lost with its connection
    deadline: float = (
        0.0  # loop time; counted from the request without a connection, or from its loss
    )


class KazooCalls:
    """The way to the ensemble. Owned by the event loop."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        max_in_flight: int,
        access: ZkAccess,
        connection: MakeConnection = KazooConnection,
    ) -> None:
        self.chroot = ""
        self.login_refused = False
        self.settled = asyncio.Event()  # the first login is done or refused
        self.session_id = 0
        self.state = SessionState.LOST
        self.listeners: list[SessionListener] = []
        self.watches = WatchTable()
        self.metrics = EnsembleMetrics()
        self._hosts = hosts
        self._timeout_s = session_timeout_ms / 1000
        self._max_in_flight = max_in_flight
        self._rights_of = secure_rights if access.sets_acl else open_rights
        self._has_sasl = access.sasl is not None
        self._loop = asyncio.get_running_loop()
        self._connection = connection(hosts, session_timeout_ms, self, access)
        self._zxid = 0  # kazoo's own starts over with every session
        self._waiting: deque[Call] = deque()
        self._in_flight: dict[Call, None] = {}
        self._written: set[str] = set()  # by the requests in flight
        self._needed: Counter[str] = Counter()
        self._lost: list[Call] = []  # lost with the connection, in the order of sending
        self._recovery: asyncio.Task[None] | None = None
        self._give_up_timer: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def last_complaint(self) -> str:
        return self._connection.last_complaint

    def start(self) -> None:
        self._connection.start()

    def read(self, path: str, request: Request, parse: Callable[[Any], Any]) -> Call:
        """Make a request that changes nothing. `parse` is called at once with the answer."""
        return Call(path, request, parse, self._loop.create_future())

    def write(self, ops: Sequence[Op]) -> Call:
        """Make a transaction. Raises NodeTooLargeError."""
        requests.check_request_size(ops, self.chroot)
        return Call(
            ops[0].path,
            requests.transaction_request(ops, self.chroot, self._rights_of),
            partial(self._results, ops),
            self._loop.create_future(),
            ops,
            written_paths(ops),
            needed_paths(ops),
        )

    def ask(self, call: Call) -> asyncio.Future[Any]:
        """Send it in its turn; returns the result."""
        if self._closed:
            raise SessionExpiredError(call.path)
        self._waiting.append(call)
        if self.state is not SessionState.CONNECTED:
            self._wait_bounded([call])
        self._pump()
        return call.future

    async def close(self, timeout_s: float) -> None:
        """End the session; requests under way fail."""
        self._closed = True
        self.state = SessionState.LOST
        self.watches.clear()
        self._stop_recovery()
        self._fail_all()
        await self._connection.close(timeout_s)

    # ---- called by the connection

    def on_connected(self, session_id: int) -> None:
        """Catch up, set the watches again, recover, go on."""
        if self.session_id not in {0, session_id} and self.state is not SessionState.LOST:
            self.on_lost(self._zxid)  # nobody learned of it
        _log.info(
            "session 0x%x on ZooKeeper at %s is established", session_id % (1 << 64), self._hosts
        )
        self.session_id = session_id
        self.metrics.connects.value += 1
        self._stop_recovery()  # its rest belongs to an earlier connection
        self._cancel_give_up()
        self._connection.submit(requests.sync_request("/"), self._synced)
        for renewal in self.watches.renewals():
            for request, paths in requests.set_watches_requests(renewal.zxid, renewal.paths):
                self._connection.submit(request, partial(self._renewed, renewal, paths))
        self.state = SessionState.CONNECTED
        if self._lost:
            self._recovery = self._loop.create_task(self._recover(), name="lost writes")
        self._pump()
        self._tell_listeners()

    def on_suspended(self, last_zxid: int) -> None:
        """Wait, for a time."""
        if self.state is not SessionState.CONNECTED:
            return
        self.metrics.disconnects.value += 1
        _log.warning("no connection to ZooKeeper at %s: %s", self._hosts, self.last_complaint)
        self._saw(last_zxid)
        self._stop_recovery()
        self._wait_bounded(self._waiting)
        self.state = SessionState.SUSPENDED
        self._tell_listeners()

    def on_lost(self, last_zxid: int) -> None:
        """Fail all requests; the next session comes by itself."""
        _log.warning("session 0x%x on ZooKeeper is over", self.session_id % (1 << 64))
        self.metrics.expires.value += 1
        self._saw(last_zxid)
        self._stop_recovery()
        self._fail_all()
        self.state = SessionState.LOST
        self._tell_listeners()

    def on_login_refused(self) -> None:
        """Say so once; as long as it is so, there is no connection."""
        self.metrics.auth_failures.value += 1
        if not self.login_refused:
            self.login_refused = True
            if self.settled.is_set():
                _log.error("ZooKeeper at %s refuses the login, which it took before", self._hosts)
            self.settled.set()

    def on_watch(self, event_type: EventType, path: str) -> None:
        """Call the watchers, after everybody who got an answer before."""
        event = WatchEvent(event_type, self._inner(path))
        for callback in self.watches.take(event_type, path):
            self._loop.call_soon(self._deliver, callback, event)

    def _saw(self, last_zxid: int) -> None:
        self._zxid = max(self._zxid, last_zxid)
        self.watches.disconnected(last_zxid)

    def _tell_listeners(self) -> None:
        for listener in list(self.listeners):
            listener(self.state)

    def _synced(self, _answer: object, error: Exception | None) -> None:
        """Learn from the first answer whether the login is taken, or if none is asked for."""
        if error is None:
            self.metrics.sasl_logins.value += self._has_sasl
            self.login_refused = False
            self.settled.set()
        elif isinstance(requests.tree_error(error, "/"), LoginRefusedError):
            self.on_login_refused()

    def _renewed(
        self,
        renewal: Renewal,
        paths: Sequence[tuple[int, str]],
        _answer: object,
        error: Exception | None,
    ) -> None:
        if error is None:
            for kind, path in paths:
                renewal.done(kind, path)

    def _deliver(self, callback: Watch, event: WatchEvent) -> None:
        if not self._closed:
            callback(event)

    # ---- sending and answers

    def _pump(self) -> None:
        if self.state is not SessionState.CONNECTED or self._recovery is not None or self._lost:
            return
        while self._waiting and len(self._in_flight) < self._max_in_flight:
            call = self._waiting[0]
            if not call.future.done() and not (self._may_send(call) and self._send(call)):
                return
            self._waiting.popleft()

    def _may_send(self, call: Call) -> bool:
        written, needed = self._written, self._needed
        return (
            written.isdisjoint(call.written)
            and written.isdisjoint(call.needed)
            and all(not needed[path] for path in call.written)
        )

    def _send(self, call: Call) -> bool:
        if call.ops:
            call.zxid_before = self._last_zxid()
        if not self._connection.submit(call.request, partial(self._answered, call)):
            return False
        call.sent_s = self._loop.time()
        self._in_flight[call] = None
        self._written.update(call.written)
        self._needed.update(call.needed)
        return True

    def _answered(self, call: Call, answer: Any, error: Exception | None) -> None:
        if call not in self._in_flight:
            return  # given up when its session was lost
        self.metrics.answered(self._loop.time() - call.sent_s)
        del self._in_flight[call]
        self._written.difference_update(call.written)
        self._needed -= Counter(call.needed)  # drops those that come to nothing
        if not self._finish(call, answer, error):
            self._lose(call)
        self._pump()

    def _lose(self, call: Call) -> None:
        call.losses += 1
        if call.losses == 1:
            call.deadline = self._loop.time() + self._timeout_s
        if not self._is_given_up(call):
            self._lost.append(call)

    def _finish(self, call: Call, answer: Any, error: Exception | None) -> bool:
        """Hand out the answer; False if it was lost."""
        try:
            if error is not None:
                raise requests.tree_error(error, call.path)
            result = call.parse(answer)
        except AnswerLostError:
            return False
        except TreeError as refusal:
            if not call.future.done():
                call.future.set_exception(refusal)
        else:
            if not call.future.done():
                call.future.set_result(result)
        return True

    def _results(self, ops: Sequence[Op], answer: Any) -> list[OpResult]:
        results = requests.write_results(ops, answer)
        return [self._inner(r) if isinstance(r, str) else r for r in results]

    def _inner(self, path: str) -> str:
        return path[len(self.chroot) :] or "/"

    def _last_zxid(self) -> int:
        self._zxid = max(self._zxid, self._connection.last_zxid)
        return self._zxid

    # ---- without a connection

    def _wait_bounded(self, calls: Iterable[Call]) -> None:
        deadline = self._loop.time() + self._timeout_s
        for call in calls:
            if not call.losses:
                call.deadline = deadline
        if self._give_up_timer is None:
            self._set_give_up_timer()

    def _set_give_up_timer(self) -> None:
        deadlines = [call.deadline for call in [*self._lost, *self._waiting]]
        if deadlines:
            self._give_up_timer = self._loop.call_at(min(deadlines), self._give_up)

    def _give_up(self) -> None:
        self._give_up_timer = None
        self._lost = [call for call in self._lost if not self._is_given_up(call)]
        self._waiting = deque(call for call in self._waiting if not self._is_given_up(call))
        self._set_give_up_timer()

    def _is_given_up(self, call: Call) -> bool:
        """Whether nobody waits for it any more. A call that was lost gets no more time than one
        session, however often it is lost: it may be the cause for which the server breaks the
        connection.
        """
        if call.deadline <= self._loop.time() and not call.future.done():
            call.future.set_exception(TreeUnavailableError(call.path))
        return call.future.done()

    def _cancel_give_up(self) -> None:
        if self._give_up_timer is not None:
            self._give_up_timer.cancel()
            self._give_up_timer = None

    def _fail_all(self) -> None:
        calls = [*self._lost, *self._in_flight, *self._waiting]
        self._cancel_give_up()
        self._lost.clear()
        self._in_flight.clear()
        self._written.clear()
        self._needed.clear()
        self._waiting.clear()
        for call in calls:
            if not call.future.done():
                call.future.set_exception(SessionExpiredError(call.path))

    # ---- recovery

    def _stop_recovery(self) -> None:
        if self._recovery is not None:
            self._recovery.cancel()
            self._recovery = None

    async def _recover(self) -> None:
        """Find out what became of lost writes, one after the other; lost reads are sent again."""
        writes = [call for call in self._lost if call.ops]
        for call in writes:
            if not self._is_given_up(call):
                if call.losses > 3:  # perhaps because of it: no hurry to break the next one
                    await asyncio.sleep(_SUSPECT_PAUSE_S)
                try:
                    await self._look_up(call)
                except AnswerLostError:
                    self._recovery = None
                    return  # the next connection tries again
            self._lost.remove(call)
        self._waiting.extendleft(reversed(self._lost))
        self._lost.clear()
        self._recovery = None
        self._pump()

    async def _look_up(self, call: Call) -> None:
        lost = LostWrite(call.ops, self.session_id, call.zxid_before)
        lookup = LostWriteLookup(lost, self._read_node, self._read_children)
        verdict = await lookup.verdict()
        results = await lookup.results() if verdict is Verdict.DONE else None
        if verdict is Verdict.NOT_DONE:
            call.zxid_before = self._last_zxid()
            answer, error = await self._ask_at_once(call.request)
            if not self._finish(call, answer, error):
                call.losses += 1
                raise AnswerLostError(call.path)
        elif call.future.done():
            return
        elif results is not None:
            call.future.set_result(results)
        else:
            call.future.set_exception(TreeUnavailableError(call.path))

    async def _read_node(self, path: str) -> FoundNode | None:
        request = requests.get_request(whole_path(self.chroot, path), watched=False)
        answer, error = await self._ask_at_once(request)
        if error is None:
            return FoundNode(answer[0], requests.stat_of(answer[1]), answer[1].pzxid)
        refusal = requests.tree_error(error, path)
        if isinstance(refusal, NoNodeError):
            return None
        raise refusal

    async def _read_children(self, path: str) -> list[str]:
        request = requests.children_request(whole_path(self.chroot, path), watched=False)
        answer, error = await self._ask_at_once(request)
        if error is None:
            return list(answer[0])
        refusal = requests.tree_error(error, path)
        if isinstance(refusal, NoNodeError):
            return []
        raise refusal

    async def _ask_at_once(self, request: Request) -> tuple[Any, Exception | None]:
        """Answer and error; not through the queue, which waits for the recovery."""
        future: asyncio.Future[tuple[Any, Exception | None]] = self._loop.create_future()

        def on_answer(answer: Any, error: Exception | None) -> None:
            if not future.done():
                future.set_result((answer, error))

        if not self._connection.submit(request, on_answer):
            raise AnswerLostError
        return await future
