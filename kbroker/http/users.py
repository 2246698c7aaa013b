"""Users: who asks at the HTTP address of a broker that has users, by a session of a browser or by
HTTP Basic, and how they log in and out.

Law: a wrong password and a name that nobody has get the same answer, which waits as at a listener;
no more than `WAITING_MOST` wait, of which the oldest is then given at once. No more passwords are
checked at a time than `CHECKED_MOST`, and of one address than `CHECKED_OF_ONE_MOST`: what comes
beyond is turned away, of all addresses the last one of that which has most, so that a few addresses
keep nobody out. A login never goes on with a session that was there before it. Nothing here leads a
browser to another site.

Owned by the loop of the HTTP thread.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

from kbroker.http.answers import Answer, Receive, said
from kbroker.http.guard import ELSEWHERE, Headers, netloc_of
from kbroker.http.rights import Rights
from kbroker.http.sessions import MakePages, Session, Sessions
from kbroker.network.strangers import network_of
from kbroker.sasl.login import Login

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
WAITING_MOST: Final = 64
CHECKED_MOST: Final = 128
CHECKED_OF_ONE_MOST: Final = 16
_FORM_BYTES_MAX: Final = 8 * 1024
_FIELDS_MAX: Final = 10
_KEY_BYTES: Final = 32
_REFUSED: Final = "no such user, or a wrong password"
_TOO_MANY: Final = "too many passwords come at once: try again"
_BUSY: Final = "the broker is starting, or busy: try again"
_PORTS: Final = {"http": 80, "https": 443}


class Verdict(NamedTuple):
    """The mechanism that lets in a name with a password, and the principal of that user; None: none
    does, and the refusal waits.
    """

    mechanism: str | None
    wait_ms: float = 0.0
    principal: str = ""


Check = Callable[[str | None, str, str], Awaitable[Verdict]]
"""Checks a name and a password that came from an address (the first; None: they did before). Raises
TimeoutError if nobody can say now."""
FindRights = Callable[[str, str], Rights]
"""Finds the rights of a principal at an address."""
LoginPage = Callable[[Headers, str, str | None, int], Answer]
"""Makes the page with the form: for a browser, the path to go on with, a refusal, the status."""


class Users:
    """The users of one broker, and who of them has logged in."""

    def __init__(
        self,
        make_pages: MakePages,
        check: Check,
        changes: Callable[[], int],
        login_page: LoginPage,
        rights: FindRights,
    ) -> None:
        """`changes` counts the changes of users; any thread may ask it."""
        self.rights = rights
        self._check = check
        self._changes = changes
        self._login_page = login_page
        self._secret = secrets.token_bytes(_KEY_BYTES)
        # By address, the passwords that are checked now, the last one last.
        self._checked: dict[str, list[asyncio.Future[Verdict]]] = {}
        self._waiting: OrderedDict[asyncio.Event, None] = OrderedDict()
        self.sessions = Sessions(make_pages, self._still_holds, changes)

    async def find(
        self, scope: MutableMapping[str, Any], headers: Headers
    ) -> Session | Answer | None:
        """Return the session of a request, the refusal of its password, or None if it has none."""
        shown = _cookie(headers, _cookie_name(scope, headers))
        session = self.sessions.find(_hash(shown)) if shown else None
        given = headers.get("authorization", "")
        user = basic_user(given)
        if session is not None or user is None:
            return session
        key = hmac.digest(self._secret, given.encode("latin-1", "replace"), "sha256")
        session = self.sessions.find(key)
        if session is not None:
            return session
        found = await self._log_in(key, scope, *user)
        if isinstance(found, Session):
            return found
        status, sentence = found
        return self._refused(status, sentence, headers)

    def ask(self, scope: MutableMapping[str, Any], headers: Headers, sentence: str) -> Answer:
        """Return the answer to somebody who has to log in first: a browser is led to the form."""
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            path = scope["raw_path"].decode("latin-1")
            query = scope["query_string"].decode("latin-1")
            here = f"{path}?{query}" if query else path
            if _comes_from_elsewhere(headers) and _own_path(here) == here:
                # A link elsewhere brings no strict cookie along; asked again from here, it comes.
                return Answer(
                    body=b'<link rel="icon" href="data:,">one moment\n',  # else it asks for one
                    content_type="text/html; charset=utf-8",
                    headers=(("refresh", f"0;url={here}"),),
                )
            return said(303, "log in first", ("location", f"{LOGIN}?next={quote(here, safe='')}"))
        return self._refused(401, sentence, headers)

    async def answer(
        self, scope: MutableMapping[str, Any], headers: Headers, receive: Receive
    ) -> Answer | None:
        """Answer the form of the login and the end of a session; None for other paths."""
        path, method = scope["path"], scope["method"]
        name = _cookie_name(scope, headers)
        key = _hash(_cookie(headers, name))
        if path == LOGIN and method in ("GET", "HEAD"):
            after = _own_path(_field(scope["query_string"], "next"))
            if self.sessions.find(key) is not None:
                return said(303, "logged in", ("location", after))
            return self._login_page(headers, after, None, 200)
        if path == LOGIN and method == "POST":
            return await self._answer_form(scope, headers, receive)
        if path == LOGOUT and method == "POST":
            self.sessions.end(key)
            end = f"{name}=; Path=/; Max-Age=0{_protection(scope)}"
            return said(303, "logged out", ("location", LOGIN), ("set-cookie", end))
        if path in (LOGIN, LOGOUT):
            return said(405, "only GET, HEAD and POST" if path == LOGIN else "only POST")
        return None

    def close(self) -> None:
        """End all sessions; nobody logs in any more."""
        self.sessions.close()

    async def _answer_form(
        self, scope: MutableMapping[str, Any], headers: Headers, receive: Receive
    ) -> Answer:
        form = await _body(receive)
        if form is None:
            return said(413, f"a login has at most {_FORM_BYTES_MAX} bytes")
        after = _own_path(_field(form, "next"))
        name = _cookie_name(scope, headers)
        self.sessions.end(_hash(_cookie(headers, name)))
        value = secrets.token_urlsafe(_KEY_BYTES)
        found = await self._log_in(
            _hash(value), scope, _field(form, "user"), _field(form, "password")
        )
        if not isinstance(found, Session):
            status, sentence = found
            return self._login_page(headers, after, sentence, status)
        cookie = f"{name}={value}; Path=/{_protection(scope)}"
        return said(303, "logged in", ("location", after), ("set-cookie", cookie))

    async def _log_in(
        self, key: bytes, scope: MutableMapping[str, Any], name: str, password: str
    ) -> Session | tuple[int, str]:
        """Begin a session, or say why not."""
        as_of = self._changes()
        host = scope["client"][0]
        network = network_of(host)
        if not self._has_room(network):
            return 429, _TOO_MANY
        checked = asyncio.ensure_future(self._check(host, name, password))
        self._checked.setdefault(network, []).append(checked)
        try:
            await asyncio.wait((checked,))  # which tells its end from the end of this request
        finally:
            checked.cancel()
            self._forget(network, checked)
        if checked.cancelled():
            return 429, _TOO_MANY
        try:
            verdict = checked.result()
        except TimeoutError:
            return 503, _BUSY
        if verdict.mechanism is None:
            await self._wait(verdict.wait_ms)
            return 401, _REFUSED
        # Of a program that sends many requests at once, each is checked: another one here would end
        # what the first has asked for.
        there = self.sessions.find(key)
        if there is not None:
            return there
        login = Login(mechanism=verdict.mechanism, username=name, password=password)
        return self.sessions.begin(key, login, as_of, verdict.principal)

    def _has_room(self, network: str) -> bool:
        """Whether another password of an address is checked; the last one of the address that has
        most makes room for it.
        """
        own = len(self._checked.get(network, ()))
        if own >= CHECKED_OF_ONE_MOST:
            return False
        if sum(map(len, self._checked.values())) < CHECKED_MOST:
            return True
        most = max(self._checked, key=lambda each: len(self._checked[each]))
        if len(self._checked[most]) <= own + 1:
            return False
        last = self._checked[most][-1]
        last.cancel()
        self._forget(most, last)
        return True

    def _forget(self, network: str, checked: asyncio.Future[Verdict]) -> None:
        of_network = self._checked.get(network, [])
        if checked in of_network:
            of_network.remove(checked)
        if not of_network:
            self._checked.pop(network, None)

    async def _wait(self, wait_ms: float) -> None:
        """Let the answer to a wrong password wait, unless too many do."""
        given = asyncio.Event()
        self._waiting[given] = None
        if len(self._waiting) > WAITING_MOST:
            next(iter(self._waiting)).set()
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await given.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.pop(given)

    async def _still_holds(self, login: Login) -> bool:
        verdict = await self._check(None, login.username, login.password)
        return verdict.mechanism is not None

    @staticmethod
    def _refused(status: int, sentence: str, headers: Headers) -> Answer:
        # The script of a page would have the browser open a window that nobody knows.
        is_script = headers.get("sec-fetch-mode", "navigate") != "navigate"
        challenge = ("www-authenticate", 'Basic realm="kbroker", charset="UTF-8"')
        return said(status, sentence, *(() if is_script or status != 401 else (challenge,)))


def basic_user(authorization: str) -> tuple[str, str] | None:
    """Return the name and the password of HTTP Basic; None if there is none.

    >>> basic_user("Basic YW5uOnNlY3JldDox")
    ('ann', 'secret:1')
    """
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(rest, validate=True).decode().partition(":")
    except ValueError:
        return None
    return (name, password) if colon else None


def _comes_from_elsewhere(headers: Headers) -> bool:
    """Whether somebody has followed a link of another page. Browsers say so by TLS and on this
    machine; else the page says it that they come from.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ELSEWHERE
    referrer = headers.get("referer")
    return referrer is not None and netloc_of(referrer) != headers.get("host", "").lower()


def _cookie_name(scope: MutableMapping[str, Any], headers: Headers) -> str:
    """The name of the cookie, with the port by which the browser calls: all ports of a host share
    their cookies, and there is a broker at each.
    """
    scheme = scope["scheme"]
    try:
        port = urlsplit(f"//{headers.get('host', '')}").port
    except ValueError:
        port = None
    prefix = "__Host-" if scheme == "https" else ""  # which browsers take by TLS only
    return f"{prefix}kbroker_session_{port or _PORTS[scheme]}"


def _protection(scope: MutableMapping[str, Any]) -> str:
    secure = "; Secure" if scope["scheme"] == "https" else ""
    return f"; HttpOnly; SameSite=Strict{secure}"


def _cookie(headers: Headers, wanted: str) -> str:
    for each in headers.get("cookie", "").split(";"):
        name, _, value = each.strip().partition("=")
        if name == wanted:
            return value
    return ""


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode("latin-1", "replace")).digest()


def _field(text: bytes, name: str) -> str:
    """A field of a form, empty if there is none, or too many of any."""
    try:
        fields = parse_qs(
            text.decode("ascii", "replace"), keep_blank_values=True, max_num_fields=_FIELDS_MAX
        )
    except ValueError:
        return ""
    return fields.get(name, [""])[-1]


def _own_path(text: str) -> str:
    """The path if it is one of this address, else that of the first page."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return quote(text, safe="/?=&%+:,;@!$'()*~-._") if is_own else "/overview"


async def _body(receive: Receive) -> bytes | None:
    """The body of a request, None if it is too large, or its client has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > _FORM_BYTES_MAX:
            return None
        if not message.get("more_body", False):
            return bytes(body)
