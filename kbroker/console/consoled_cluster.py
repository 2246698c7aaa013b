"""ConsoledCluster: the cluster that a console shows, asked from the loop of a web server.

Law: a question waits on a thread of its own, never on the loop, and no more than `AT_ONCE` are at
work, also those that nobody waits for any more: they are given up, and end soon. Links are used by
one question at a time, and closed when nobody has asked for a while. After an error they are opened
again, so that a broker that came back, moved or has another certificate is found again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kbroker.client.client_error import ClientError, link_errors
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.errors import Trouble
from kbroker.rare_collections import collecting_all_rarely

AT_ONCE: Final = 4
_ROOM_S = 10.0
_IDLE_S = 30.0  # brokers close idle connections after ten minutes, others in between sooner
_MOST_S = 10.0
_TURN_S = 0.001  # of computing, in which another thread may have to wait
_REST_S = 0.001

T = TypeVar("T")


class GivenUpError(Exception):
    """The end of a question that nobody waits for any more."""


class Work:
    """One question at work: the links that it may use, and how long it may take."""

    def __init__(self, most_s: float) -> None:
        self.links: ClusterLinks
        self._until_s = time.monotonic() + most_s
        self._given_up = threading.Event()
        self._turn_ends_s = 0.0

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits for the answer."""
        return self._given_up.is_set()

    @property
    def is_late(self) -> bool:
        """Whether the time for this question is over: it shall answer with what it has."""
        return time.monotonic() >= self._until_s

    def give_up(self) -> None:
        """Note that nobody waits for the answer. May be called by any thread."""
        self._given_up.set()

    def check(self) -> None:
        """Raise GivenUpError if nobody waits for the answer."""
        if self.is_given_up:
            raise GivenUpError

    def make_way(self) -> None:
        """Let other threads of this process run, after each turn of computing: to be called often.
        A broker in the same process answers its clients meanwhile.

        Raises GivenUpError if nobody waits for the answer.
        """
        now_s = time.perf_counter()
        if now_s >= self._turn_ends_s:
            self.sleep(_REST_S)
            self._turn_ends_s = time.perf_counter() + _TURN_S

    def sleep(self, seconds: float) -> None:
        """Wait, as `time.sleep` does. Raises GivenUpError as soon as nobody waits any more."""
        if self._given_up.wait(seconds):
            raise GivenUpError


Question = Callable[[Work], T]
"""Asks a cluster on a thread, and returns the answer."""


@dataclass(frozen=True, slots=True)
class _Idle:
    links: ClusterLinks
    since_s: float


class ConsoledCluster:
    """A cluster to ask. Made, asked and closed on one loop."""

    def __init__(
        self,
        bootstrap: str,
        open_links: Callable[[str], ClusterLinks] = ClusterLinks,
        room: asyncio.Semaphore | None = None,
    ) -> None:
        """`bootstrap`: HOST:PORT[,HOST:PORT ...], as a `Bootstrap` if that needs TLS or a login.
        Consoles of one process may share the `room` for their questions.
        """
        self.bootstrap = bootstrap
        self._open_links = open_links
        self._room = room or asyncio.Semaphore(AT_ONCE)
        self._idle: list[_Idle] = []
        self._works: set[Work] = set()
        self._closing: asyncio.TimerHandle | None = None

    @property
    def at_work(self) -> int:
        """How many questions are at work, with those that were given up and have not ended."""
        return len(self._works)

    async def ask(self, question: Question[T], most_s: float = _MOST_S) -> T:
        """Return the answer to a question, which may take `most_s` seconds, and longer only while
        it waits for a broker.

        Raises ClientError with a sentence for a person.
        """
        try:
            async with asyncio.timeout(_ROOM_S):
                await self._room.acquire()
        except TimeoutError:
            raise ClientError(
                "the console is at work on too many questions: try again",
                ExitCode.TIMEOUT,
                Trouble.NO_ANSWER,
            ) from None
        work = Work(most_s)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._works.add(work)
        borrowed = self._borrowed()
        thread = threading.Thread(
            target=self._run, args=(question, work, answer, borrowed), name="console", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # there are as many threads as the system allows
            self._end(work, borrowed)
            raise ClientError("the console has no thread to ask on: try again") from error
        try:
            return await answer
        finally:
            work.give_up()

    def close(self) -> None:
        """Give up what is at work, and close idle links."""
        for work in self._works:
            work.give_up()
        self._close_idle(older_than_s=0.0)
        if self._closing is not None:
            self._closing.cancel()

    def _run(
        self,
        question: Question[T],
        work: Work,
        answer: asyncio.Future[T],
        borrowed: ClusterLinks | None,
    ) -> None:
        """Answer a question on its thread."""
        links = borrowed
        result: Any = None
        failure: Exception | None = None
        try:
            with link_errors(self.bootstrap):
                links = links or self._open_links(self.bootstrap)
                links.silent.clear()
                links.sleep = work.sleep
                work.links = links
                # Answers about whole clusters are hundreds of thousands of objects, which a full
                # collection looks at while no other thread runs.
                with collecting_all_rarely():
                    result = question(work)
                for link in links.busy():
                    links.lose(link)  # it would answer the next question
        except Exception as error:
            failure = error
            if links is not None:
                links.close()
                links = None

        def settle() -> None:
            self._end(work, links)
            if answer.done():
                return
            if failure is None:
                answer.set_result(result)
            elif isinstance(failure, GivenUpError):
                answer.cancel()  # the cluster was closed
            else:
                answer.set_exception(failure)

        loop = answer.get_loop()
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop is closed
            if links is not None:
                links.close()

    def _borrowed(self) -> ClusterLinks | None:
        return self._idle.pop().links if self._idle else None

    def _end(self, work: Work, links: ClusterLinks | None) -> None:
        self._works.discard(work)
        self._room.release()
        if links is None:
            return
        self._idle.append(_Idle(links, time.monotonic()))
        if self._closing is None:
            self._close_later()

    def _close_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._closing = loop.call_later(_IDLE_S, self._look_at_idle)

    def _look_at_idle(self) -> None:
        self._closing = None
        self._close_idle(older_than_s=_IDLE_S / 2)
        if self._idle:
            self._close_later()

    def _close_idle(self, older_than_s: float) -> None:
        now_s = time.monotonic()
        kept = []
        for idle in self._idle:
            if now_s - idle.since_s >= older_than_s:
                with suppress(OSError):
                    idle.links.close()
            else:
                kept.append(idle)
        self._idle = kept
