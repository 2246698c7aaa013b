"""Sessions: who has logged in over HTTP, for as long as that holds.

Law: there are no more than `most`: beyond that, of a user who has most of them, the one that has
rested for longest makes room, so that nobody ends all those of others by logging in. A session ends
when nobody has asked for `idle_s`, after `longest_s` in any case, and at the next look after a
change that leaves its user without this password; what it has asked for ends with it. Keys are kept
as hashes. Passwords are kept as long as their sessions, as the console logs in by them.

Owned by the loop of the HTTP thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from kbroker.http.answers import Application, Receive
from kbroker.sasl.login import Login

_log = logging.getLogger(__name__)

_GONE: Final[MutableMapping[str, Any]] = {"type": "http.disconnect"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """The bounds of the sessions of one address."""

    most: int = 64
    idle_s: float = 30 * 60.0
    longest_s: float = 12 * 3600.0
    look_s: float = 0.5


@dataclass(slots=True, eq=False, repr=False)
class Session:
    """A user who has logged in, and the pages that are made for this user."""

    login: Login
    principal: str
    pages: Application
    began_s: float
    used_s: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def bounded(self, receive: Receive) -> Receive:
        """Return a `receive` of ASGI that says that the client has gone when the session ends."""

        async def receive_or_end() -> MutableMapping[str, Any]:
            received = asyncio.ensure_future(receive())
            ended = asyncio.ensure_future(self.ended.wait())
            try:
                await asyncio.wait((received, ended), return_when=asyncio.FIRST_COMPLETED)
                return _GONE if ended.done() else received.result()
            finally:
                received.cancel()
                ended.cancel()

        return receive_or_end


MakePages = Callable[[Login, str], Application]
"""Makes the pages of a user with this principal."""
StillHolds = Callable[[Login], Awaitable[bool]]
"""Says whether a user still has a password. Raises TimeoutError if nobody can say now."""


class Sessions:
    """The sessions of one address, by the hashes of what their owners show."""

    def __init__(
        self,
        make_pages: MakePages,
        still_holds: StillHolds,
        changes: Callable[[], int],
        limits: SessionLimits | None = None,
    ) -> None:
        """`changes` counts the changes of users; any thread may ask it."""
        self._make_pages = make_pages
        self._still_holds = still_holds
        self._changes = changes
        self._limits = limits or SessionLimits()
        self._kept: OrderedDict[bytes, Session] = OrderedDict()  # by their last use
        self._seen_changes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._checking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: bytes) -> Session | None:
        """Return a session, which is used by that."""
        session = self._kept.get(key)
        if session is not None:
            session.used_s = _now_s()
            self._kept.move_to_end(key)
        return session

    def begin(self, key: bytes, login: Login, as_of_changes: int, principal: str) -> Session:
        """Begin a session of a user who had this password as of so many changes."""
        now_s = _now_s()
        self._seen_changes = min(self._seen_changes, as_of_changes) if self._kept else as_of_changes
        session = Session(login, principal, self._make_pages(login, principal), now_s, now_s)
        self.end(key)
        self._kept[key] = session
        while len(self._kept) > self._limits.most:
            self.end(self._one_too_many())
        if self._timer is None:
            self._look_later()
        return session

    def end(self, key: bytes) -> None:
        """End a session, if there is one."""
        session = self._kept.pop(key, None)
        if session is not None:
            session.ended.set()
            session.pages.close()

    def close(self) -> None:
        """End all sessions; none begins any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._checking is not None:
            self._checking.cancel()
        for key in list(self._kept):
            self.end(key)

    def _one_too_many(self) -> bytes:
        counts = Counter(each.login.username for each in self._kept.values())
        return max(self._kept, key=lambda key: counts[self._kept[key].login.username])

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._limits.look_s, self._look)

    def _look(self) -> None:
        """End what is over, and ask for those whose users may have changed."""
        now_s, limits = _now_s(), self._limits
        for key, session in list(self._kept.items()):
            age_s, rest_s = now_s - session.began_s, now_s - session.used_s
            if rest_s >= limits.idle_s or age_s >= limits.longest_s:
                self.end(key)
        self._timer = None
        if not self._kept:
            return
        self._look_later()
        changes = self._changes()
        is_checking = self._checking is not None and not self._checking.done()
        if changes != self._seen_changes and not is_checking:
            self._seen_changes = changes
            self._checking = asyncio.ensure_future(self._check_all())

    async def _check_all(self) -> None:
        for key, session in list(self._kept.items()):
            try:
                holds = await self._still_holds(session.login)
            except TimeoutError:
                self._seen_changes = -1  # look again
                continue
            if not holds and self._kept.get(key) is session:
                _log.info("a session over HTTP has ended: its user has another password, or none")
                self.end(key)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
