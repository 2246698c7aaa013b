"""The users of a broker at its HTTP address: where their passwords are checked, and their pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from kbroker.config.kbroker_config import KbrokerConfig
from kbroker.console.consoled_cluster import AT_ONCE
from kbroker.http.answers import Answer
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.guard import Headers
from kbroker.http.routes import Request, Route
from kbroker.http.sessions import MakePages
from kbroker.http.users import Check, Users, Verdict
from kbroker.server.broker.broker_console import BrokerConsole, ConsoleLooks
from kbroker.server.broker.broker_parts import BrokerParts

CHECKED_S: Final = 10.0  # the most that a check takes, with its wait for a thread
_STATIC: Final = ("console.css", "icon.svg")  # of the page on which they log in


def users_of(loop: BrokerLoop, check: Check, changes: Callable[[], int], pages: MakePages) -> Users:
    """The users of a broker, whose passwords are checked on its loop. Called on the HTTP thread."""

    async def checked(host: str | None, name: str, password: str) -> Verdict:
        return await loop.run(partial(check, host, name, password), CHECKED_S)

    return Users(pages, checked, changes, _login_page)


def pages_of(config: KbrokerConfig, loop: BrokerLoop, looks: ConsoleLooks) -> MakePages:
    """Return a function that makes the console of a user; all of them together ask as many
    questions at once as one.
    """
    room = asyncio.Semaphore(AT_ONCE)
    return lambda login: BrokerConsole(config, loop, looks, login, room)


def static_routes() -> dict[str, Route]:
    """The routes of files that also those get who have not logged in."""

    async def answer(request: Request) -> Answer:
        from kbroker.console.web.static_files import static_files

        return static_files()[request.path.rpartition("/")[2]]

    return {f"/static/{name}": Route(answer=answer, is_open=True) for name in _STATIC}


async def check_login(
    parts: BrokerParts, listener: str, host: str | None, name: str, password: str
) -> Verdict:
    """Check a password at a broker, and count the wrong one of an address. Called on the loop of
    the broker.
    """
    assert parts.logins is not None
    found = await parts.logins.check_password(listener, host or "", name, password)
    if found.mechanism is not None or host is None:
        return Verdict(found.mechanism)
    return Verdict(None, parts.socket_server.processor.http_login_failed(host, found.reason))


def _login_page(headers: Headers, after: str, refused: str | None, status: int) -> Answer:
    from kbroker.console.web.login_page import login_page

    return login_page(headers, after, refused, status)
