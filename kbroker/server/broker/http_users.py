"""The users of a broker at its HTTP address: where their passwords are checked, and their pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from kbroker.acl.acl import CLUSTER, CLUSTER_NAME, AclOperation, label_of
from kbroker.apis.authorizer import ALLOW_ALL, Purpose
from kbroker.config.kbroker_config import KbrokerConfig
from kbroker.console.consoled_cluster import AT_ONCE
from kbroker.errors import ProtocolError
from kbroker.http.answers import Answer
from kbroker.http.broker_loop import BrokerLoop
from kbroker.http.guard import Headers
from kbroker.http.routes import Request, Route
from kbroker.http.sessions import MakePages
from kbroker.http.users import Check, FindRights, Users, Verdict
from kbroker.protocol.request import ConnectionInfo
from kbroker.sasl.login import Login
from kbroker.server.background.worker_threads import NoThreadError
from kbroker.server.broker.broker_console import BrokerConsole, ConsoleLooks, ConsoleUser
from kbroker.server.broker.broker_parts import BrokerParts

CHECKED_S: Final = 10.0  # the most that a check takes, with its wait for a thread
_STATIC: Final = ("console.css", "icon.svg")  # of the page on which they log in


def users_of(
    loop: BrokerLoop,
    check: Check,
    changes: Callable[[], int],
    pages: MakePages,
    rights: FindRights,
) -> Users:
    """The users of a broker, whose passwords are checked on its loop. Called on the HTTP thread."""

    async def checked(host: str | None, name: str, password: str) -> Verdict:
        return await loop.run(partial(check, host, name, password), CHECKED_S)

    return Users(pages, checked, changes, _login_page, rights)


def pages_of(
    config: KbrokerConfig, loop: BrokerLoop, looks: ConsoleLooks, rights: FindRights
) -> MakePages:
    """Return a function that makes the console of a user; all of them together ask as many
    questions at once as one.
    """
    room = asyncio.Semaphore(AT_ONCE)

    def pages(login: Login, principal: str) -> BrokerConsole:
        user = ConsoleUser(login=login, rights=partial(rights, principal), room=room)
        return BrokerConsole(config, loop, looks, user)

    return pages


def static_routes() -> dict[str, Route]:
    """The routes of files that also those get who have not logged in."""

    async def answer(request: Request) -> Answer:
        from kbroker.console.web.static_files import static_files

        return static_files()[request.path.rpartition("/")[2]]

    return {
        f"/static/{name}": Route(answer=answer, is_open=True, is_for_users=True) for name in _STATIC
    }


async def check_login(
    parts: BrokerParts, listener: str, host: str | None, name: str, password: str
) -> Verdict:
    """Check a password at a broker, and count the wrong one of an address. Called on the loop of
    the broker.
    """
    assert parts.logins is not None
    try:
        found = await parts.logins.check_password(listener, host or "", name, password)
    except NoThreadError as error:
        raise TimeoutError(str(error)) from error
    if host is None:
        return Verdict(found.mechanism)
    reason = found.reason
    if found.mechanism is not None:
        connection = _connection(parts, listener, host)
        try:
            parts.logins.settle(connection, found.name)
        except ProtocolError as error:
            reason = str(error)
        else:
            return Verdict(found.mechanism, principal=connection.principal)
    return Verdict(None, parts.socket_server.processor.http_login_failed(host, reason))


def look_refusal(parts: BrokerParts, listener: str, principal: str, host: str) -> str | None:
    """Say why a user may not see what this broker knows of itself; None if the user may. Called on
    the loop of the broker.
    """
    authorizer = parts.services.authorizer
    if authorizer is ALLOW_ALL:
        return None
    connection = _connection(parts, listener, host)
    connection.principal = principal
    granted = authorizer.authorize(connection, AclOperation.DESCRIBE, CLUSTER)
    audit = parts.services.audit
    if audit is not None and audit.hears(Purpose.TO_DO, is_granted=granted):
        asked = AclOperation.DESCRIBE, CLUSTER
        audit.note(connection, "HTTP", asked, Purpose.TO_DO, is_granted=granted)
    if granted:
        return None
    return (
        f"{principal} lacks the operation {label_of(AclOperation.DESCRIBE)} on the cluster "
        f"({CLUSTER_NAME}), which is for what this broker knows of itself"
    )


def _connection(parts: BrokerParts, listener: str, host: str) -> ConnectionInfo:
    """A user's way in, as a connection at the listener whose users these are."""
    protocols = (
        each.security_protocol
        for each in parts.storage.config.end_points()
        if each.listener_name == listener
    )
    return ConnectionInfo(
        connection_id="http",
        listener_name=listener,
        security_protocol=next(protocols),
        local_host="",
        local_port=0,
        peer_host=host,
        peer_port=0,
    )


def _login_page(headers: Headers, after: str, refused: str | None, status: int) -> Answer:
    from kbroker.console.web.login_page import login_page

    return login_page(headers, after, refused, status)
