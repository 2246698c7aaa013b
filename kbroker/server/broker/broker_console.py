"""The console of one broker: its application, loaded when somebody first opens it, and what only
this broker knows of itself.

Runs on the HTTP thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kbroker.client.client_error import ClientError
from kbroker.client.exit_code import ExitCode
from kbroker.config.kafka_config import KafkaConfig
from kbroker.config.kbroker_config import KbrokerConfig
from kbroker.console.web.views import BrokerFigures, LookRefusedError
from kbroker.errors import Trouble
from kbroker.events.history import row_of
from kbroker.http.answers import Application, Receive, Send, said, send_answer
from kbroker.http.broker_loop import BrokerLoop, Steps
from kbroker.http.rights import NotAllowedError, Rights
from kbroker.model import EndPoint, TopicPartition

if TYPE_CHECKING:  # which the first page does without
    from kbroker.http.connection_routes import LookAtConnections
    from kbroker.http.event_routes import LookAtEvents
    from kbroker.http.trace_routes import FindTracer, FollowedOnLoop
    from kbroker.sasl.login import Login
    from kbroker.tracing.open_connection import OpenConnection
    from kbroker.tracing.trace_filter import TraceFilter
    from kbroker.tracing.trace_reader import Taken

ANSWER_S: Final = 1.0  # how long the broker's loop may take to answer
_SILENT: Final = f"the broker's event loop has not answered for {ANSWER_S:g} s"
_asker: Final[ContextVar[str]] = ContextVar("asker")  # the address that a request comes from

T = TypeVar("T")
FindEndPoints = Callable[[], Sequence[EndPoint]]
"""Returns the end points that clients use, none before the broker has started; called on its
loop."""
LookAtFigures = Callable[[], Iterator[BrokerFigures | None]]
"""Yields the figures of now, once the broker has started; called on its loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleLooks:
    """Questions of the console to its broker, each called on the broker's loop."""

    events: LookAtEvents
    tracer: FindTracer
    end_points: FindEndPoints
    connections: LookAtConnections
    figures: LookAtFigures
    settings: Callable[[], KafkaConfig]  # in force; any thread may ask


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleUser:
    """A user who has logged in: the rights by the address of each request, and the room that all
    users share.
    """

    login: Login
    rights: Callable[[str], Rights]
    room: asyncio.Semaphore


class BrokerConsole:
    """The console as the routes of a broker see it."""

    def __init__(
        self,
        config: KbrokerConfig,
        loop: BrokerLoop,
        looks: ConsoleLooks,
        user: ConsoleUser | None = None,
    ) -> None:
        """`user` is the one whose console this is, if the broker has users."""
        self._config = config
        self._loop = loop
        self._login = None if user is None else user.login
        self._room = None if user is None else user.room
        self._settings_in_force = looks.settings
        self._end_points = looks.end_points
        self._views = _Views(loop, looks, None if user is None else user.rights)
        self._application: Application | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request of a browser, or of a program that asks for JSON."""
        _asker.set(scope["client"][0])
        application = self._application or await self._made()
        if application is None:
            again = ("refresh", "1")
            await send_answer(said(503, "the broker is starting", again), receive, send)
            return
        await application(scope, receive, send)

    def close(self) -> None:
        """Let go of the links to the cluster."""
        if self._application is not None:
            self._application.close()

    async def _made(self) -> Application | None:
        """Return the application, None if the broker cannot be asked yet."""

        def steps() -> Iterator[Sequence[EndPoint]]:
            yield self._end_points()

        try:
            (end_points,) = await self._loop.collect(steps, ANSWER_S)
        except TimeoutError:
            return None
        if end_points and self._application is None:
            self._application = self._made_for(end_points)
        return self._application

    def _made_for(self, end_points: Sequence[EndPoint]) -> Application:
        from kbroker.console.consoled_cluster import ConsoledCluster
        from kbroker.console.web.app import ConsoleApplication
        from kbroker.console.web.console import ConsoleOptions
        from kbroker.server.broker.console_client import ConsoleClient

        client = ConsoleClient(self._settings_in_force, end_points, self._login)
        options = ConsoleOptions(
            read_only=self._config.kbroker_console_read_only,
            no_messages=not self._config.kbroker_console_messages,
        )
        cluster = ConsoledCluster(client.address, client.open_links, self._room)
        user = None if self._login is None else self._login.username
        return ConsoleApplication(cluster, options, self._views, user)


class _Views:
    """The knowledge that a broker has of itself, collected on its loop."""

    def __init__(
        self,
        loop: BrokerLoop,
        looks: ConsoleLooks,
        rights: Callable[[str], Rights] | None,
    ) -> None:
        self._loop = loop
        self._looks = looks
        self._rights_at = rights

    async def check(self) -> None:
        rights = self._rights()
        if rights is None:
            return
        with _refusals():
            try:
                await rights.check()
            except TimeoutError as error:
                raise _no_answer(_SILENT) from error

    async def events(self, subject: str | TopicPartition | None) -> Sequence[dict[str, Any]]:
        found = await self._collected(lambda: self._looks.events(subject))
        return [row_of(noted) for noted in found]

    async def connections(self) -> Sequence[OpenConnection]:
        from kbroker.server.broker import open_connections  # noqa: F401  here, not on its loop

        return await self._collected(self._looks.connections)

    async def figures(self) -> BrokerFigures:
        from kbroker.server.broker import broker_figures  # noqa: F401  here, not on its loop

        found = await self._collected(self._looks.figures)
        if not found:
            raise _no_answer("the broker is starting")
        return found[0]

    async def follow(self, wanted: TraceFilter) -> _Followed:
        from kbroker.http.trace_routes import FollowedOnLoop

        followed = FollowedOnLoop(self._loop, self._looks.tracer, wanted, self._rights())
        try:
            with _refusals():
                problem = await followed.begin()
        except BaseException:  # the page has gone that wanted it
            followed.close()
            raise
        if problem is not None:
            followed.close()
            raise _no_answer(problem)
        return _Followed(followed)

    async def _collected(self, steps: Steps[T]) -> list[T]:
        rights = self._rights()

        def allowed() -> Iterator[T | None]:
            if rights is not None:
                rights.check_here()
            return steps()

        with _refusals():
            try:
                return await self._loop.collect(allowed, ANSWER_S)
            except TimeoutError as error:
                raise _no_answer(_SILENT) from error

    def _rights(self) -> Rights | None:
        return None if self._rights_at is None else self._rights_at(_asker.get())


class _Followed:
    """Requests that are followed, and refusals as the console knows them."""

    def __init__(self, followed: FollowedOnLoop) -> None:
        self._followed = followed

    async def take(self) -> Taken:
        with _refusals():
            return await self._followed.take()

    def close(self) -> None:
        self._followed.close()


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except NotAllowedError as error:
        raise LookRefusedError(str(error)) from error


def _no_answer(sentence: str) -> ClientError:
    return ClientError(sentence, ExitCode.TIMEOUT, Trouble.NO_ANSWER)
