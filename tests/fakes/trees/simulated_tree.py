"""The client of an ensemble, in a simulation: the tree itself is an EmbeddedTree, the way to it
takes virtual time and breaks.

Law: its users meet everything that a real client does to them. Operations of one client are carried
out in their order; an operation whose connection breaks fails, and may have been carried out or
not; watches and states come in the order in which they happened, each later than it happened, and
independent of answers. The client learns that its session has ended when it is connected again, and
opens the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from kbroker.zk.embedded.embedded_tree import EmbeddedTree, TreeSession
from kbroker.zk.tree import (
    ANY_VERSION,
    Op,
    OpResult,
    SessionExpiredError,
    SessionListener,
    SessionState,
    Stat,
    TreeError,
    TreeUnavailableError,
    Watch,
    WatchEvent,
)
from tests.fakes.running.virtual_loop import Owner, OwnerState, VirtualLoop, nobody

Ask = Callable[[TreeSession], Awaitable[Any]]


@dataclass(slots=True)
class TreeWeather:
    """How long everything takes, and how often it goes wrong by itself."""

    random: Random
    session_timeout_s: float = 6.0
    slow: float = 0.05  # of the messages take long
    slow_s: float = 1.0
    watch_slow: float = 0.1  # of the watches come late
    failing: float = 0.0  # of the operations fail although the connection stands
    splits: float = 0.2  # of the long rows are carried out in two turns

    def delay_s(self) -> float:
        """Of a message to or from the ensemble."""
        random = self.random
        if random.random() < self.slow:
            return random.random() * self.slow_s
        return random.random() * 0.003

    def watch_delay_s(self) -> float:
        random = self.random
        if random.random() < self.watch_slow:
            return random.random() * self.slow_s * 2
        return random.random() * 0.003


@dataclass(slots=True, eq=False)
class _Call:
    path: str
    ask: Ask
    future: asyncio.Future[Any]
    is_applied: bool = False
    is_lost: bool = False


class _Lane:
    """Messages one way: each arrives after the one before."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._last = 0.0

    def arrival(self, delay_s: float) -> float:
        self._last = max(self._last, self._loop.time() + delay_s)
        return self._last


@dataclass(slots=True)
class TreeCounts:
    """What has happened to the clients of a simulation."""

    operations: int = 0
    refused: int = 0
    answers_lost: int = 0
    cuts: int = 0
    expiries: int = 0
    watches: int = 0


@dataclass(slots=True)
class Ensemble:
    """The store, and what all its clients share."""

    store: EmbeddedTree
    loop: VirtualLoop
    weather: TreeWeather
    counts: TreeCounts = field(default_factory=TreeCounts)
    is_down: bool = False
    clients: dict[int, SimulatedTree] = field(default_factory=dict)  # by session id


class SimulatedTree:
    """Fulfils `Tree` for one process."""

    def __init__(self, ensemble: Ensemble, owner: Owner) -> None:
        self._ensemble = ensemble
        self._loop = ensemble.loop
        self._weather = ensemble.weather
        self._owner = owner
        self._session = nobody().run(ensemble.store.session)
        self._session_id = self._session.session_id
        self._state = SessionState.CONNECTED
        self._listeners: list[SessionListener] = []
        self._calls: dict[_Call, None] = {}
        self._wrapped: dict[Watch, Watch] = {}
        self._requests, self._answers = _Lane(self._loop), _Lane(self._loop)
        self._news = _Lane(self._loop)
        self._is_closed = False
        self._is_noticing = False  # the client is about to see that its connection broke
        ensemble.clients[self._session_id] = self

    # ---- what the broker sees

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def state(self) -> SessionState:
        return self._state

    @property
    def owner(self) -> Owner:
        return self._owner

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes | None, Stat]:
        wrapped = self._wrap(watch)
        return await self._ask(path, lambda session: session.get(path, wrapped))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        wrapped = self._wrap(watch)
        return await self._ask(path, lambda session: session.exists(path, wrapped))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        wrapped = self._wrap(watch)
        return await self._ask(path, lambda session: session.children(path, wrapped))

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> str:
        return await self._ask(
            path,
            lambda session: session.create(
                path,
                data,
                ephemeral=ephemeral,
                sequential=sequential,
                make_parents=make_parents,
            ),
        )

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        return await self._ask(path, lambda session: session.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask(path, lambda session: session.delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        path = ops[0].path if ops else ""
        return await self._ask(path, lambda session: session.multi(ops))

    async def multi_all(
        self, transactions: Sequence[Sequence[Op]]
    ) -> list[list[OpResult] | TreeError]:
        outcomes: list[list[OpResult] | TreeError] = []
        for part in self._parts(list(transactions)):
            path = part[0][0].path
            outcomes += await self._ask(path, lambda session, p=part: session.multi_all(p))
        return outcomes

    async def get_all(
        self, paths: Sequence[str], watch: Watch | None = None
    ) -> list[tuple[bytes | None, Stat] | None]:
        wrapped = self._wrap(watch)
        found: list[tuple[bytes | None, Stat] | None] = []
        for part in self._parts(list(paths)):
            found += await self._ask(part[0], lambda session, p=part: session.get_all(p, wrapped))
        return found

    def add_session_listener(self, listener: SessionListener) -> None:
        self._listeners.append(listener)

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._state = SessionState.LOST
        self._fail_calls(SessionExpiredError)
        await self._end_session()

    # ---- what happens to it

    @property
    def is_connected(self) -> bool:
        """True while the connection stands, whatever the client knows of it."""
        return not self._is_closed and self._session.state is SessionState.CONNECTED

    def cut(self) -> None:
        """The connection breaks. What is on its way may arrive yet; the session waits for its
        client, for the session time-out."""
        if not self.is_connected:
            return
        self._ensemble.counts.cuts += 1
        self._drop_calls()
        self._session.suspend()
        session_id = self._session.session_id
        self._loop.call_later(
            self._weather.session_timeout_s, self._expire_if_away, session_id, context=nobody()
        )
        self._notice()

    def restore(self) -> None:
        """The connection can be made again; a client that is stopped has to go on first."""
        if self._is_closed or self._ensemble.is_down or self._owner.state is OwnerState.PAUSED:
            return
        if self._session.state is SessionState.SUSPENDED:
            self._notice()
            self._tell(SessionState.CONNECTED, self._session.session_id)
            nobody().run(self._session.resume)
        elif self._session.state is SessionState.LOST:
            self._notice()
            self._tell(SessionState.LOST, self._session_id)
            self._begin_new_session()

    def expire(self) -> None:
        """The ensemble ends the session, and closes the connection if it stands."""
        if self._is_closed or self._session.state is SessionState.LOST:
            return
        self._ensemble.counts.expiries += 1
        self._drop_calls()
        nobody().run(self._session.expire)
        self._notice()

    def die(self) -> None:
        """Its process is no more; what is on its way may arrive yet."""
        if not self._is_closed:
            if self.is_connected:
                self._drop_calls()
            self._is_closed = True
            self._calls.clear()

    def forget(self) -> None:
        """The ensemble notices that nobody keeps the session up any more."""
        nobody().run(self._session.expire)
        self._session._closed = True
        nobody().run(self._session._store._forget_watches, self._session)

    def _expire_if_away(self, session_id: int) -> None:
        session = self._session
        if session.session_id == session_id and session.state is SessionState.SUSPENDED:
            self.expire()

    def _begin_new_session(self) -> None:
        session_id = self._ensemble.store.zxid + 1  # what `renew` draws; nobody can come between
        self._tell(SessionState.CONNECTED, session_id)
        nobody().run(self._session.renew)
        assert self._session.session_id == session_id
        self._ensemble.clients[session_id] = self

    # ---- inside: the client

    def _wrap(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        wrapped = self._wrapped.get(watch)
        if wrapped is None:

            def wrapped(event: WatchEvent) -> None:
                self._ensemble.counts.watches += 1
                when = self._news.arrival(self._weather.watch_delay_s())
                self._loop.call_at(when, self._fire, watch, event, context=self._owner.context)

            self._wrapped[watch] = wrapped
        return wrapped

    def _fire(self, watch: Watch, event: WatchEvent) -> None:
        if not self._is_closed:
            watch(event)

    def _tell(self, state: SessionState, session_id: int) -> None:
        when = self._news.arrival(self._weather.delay_s())
        self._loop.call_at(when, self._turn, state, session_id, context=self._owner.context)

    def _turn(self, state: SessionState, session_id: int) -> None:
        if self._is_closed or (state, session_id) == (self._state, self._session_id):
            return
        self._state, self._session_id = state, session_id
        self._is_noticing = False
        if state is not SessionState.CONNECTED:
            self._fail_calls(
                SessionExpiredError if state is SessionState.LOST else TreeUnavailableError
            )
        for listener in list(self._listeners):
            listener(state)

    def _notice(self) -> None:
        """Tell the client of its broken connection, once; one that is stopped sees it later."""
        if self._owner.state is OwnerState.PAUSED:
            return
        if self._state is SessionState.CONNECTED and not self._is_noticing:
            self._is_noticing = True
            self._tell(SessionState.SUSPENDED, self._session_id)

    def _fail_calls(self, kind: type[TreeUnavailableError]) -> None:
        calls, self._calls = self._calls, {}
        for call in calls:
            call.is_lost = True
            if call.is_applied:
                self._ensemble.counts.answers_lost += 1
            if not call.future.done():
                call.future.set_exception(kind(call.path))

    async def _ask(self, path: str, ask: Ask) -> Any:
        if self._is_closed or self._state is SessionState.LOST:
            raise SessionExpiredError(path)
        if self._state is SessionState.SUSPENDED:
            raise TreeUnavailableError(path)
        call = _Call(path, ask, self._loop.create_future())
        self._calls[call] = None
        self._ensemble.counts.operations += 1
        when = self._requests.arrival(self._weather.delay_s())
        self._loop.call_at(when, self._apply, call, context=nobody())
        return await call.future

    def _parts(self, items: list[Any]) -> list[list[Any]]:
        random = self._weather.random
        if len(items) > 1 and random.random() < self._weather.splits:
            middle = random.randrange(1, len(items))
            return [items[:middle], items[middle:]]
        return [items] if items else []

    # ---- inside: the ensemble

    def _drop_calls(self) -> None:
        """The connection breaks now: some of what is on its way still arrives."""
        random = self._weather.random
        for call in list(self._calls):
            if call.is_applied:
                call.is_lost = random.random() < 0.5
                continue
            if random.random() < 0.5:
                self._carry_out(call)
            call.is_lost = True

    def _apply(self, call: _Call) -> None:
        if call.is_lost or call.is_applied:
            return
        if not self.is_connected:
            self._notice()
            return
        random = self._weather.random
        fails = random.random() < self._weather.failing
        if fails and random.random() < 0.5:
            call.is_applied = True
            outcome: Any = TreeUnavailableError(call.path)
        else:
            outcome = self._carry_out(call)
        if fails:
            self._ensemble.counts.refused += 1
            outcome = TreeUnavailableError(call.path)
        when = self._answers.arrival(self._weather.delay_s())
        self._loop.call_at(when, self._answer, call, outcome, context=self._owner.context)

    def _carry_out(self, call: _Call) -> Any:
        call.is_applied = True
        try:
            return nobody().run(_finish, call.ask(self._session))
        except TreeError as error:
            return error

    def _answer(self, call: _Call, outcome: Any) -> None:
        if call.is_lost or call.future.done():
            return
        self._calls.pop(call, None)
        if isinstance(outcome, TreeError):
            call.future.set_exception(outcome)
        else:
            call.future.set_result(outcome)

    async def _end_session(self) -> None:
        with suppress(TreeError):
            nobody().run(_finish, self._session.close())


def _finish(coroutine: Any) -> Any:
    """The outcome of an operation of the embedded tree, which only gives way."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value
