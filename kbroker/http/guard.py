"""Refusals of requests that a web page elsewhere sends, or somebody without the token.

A page of another site can make a browser connect to any address. Under a name of its own that
leads here (DNS rebinding) it would even read the answers. So a request must name this broker by an
address, as localhost, or by a name that is listed, and may come from no other page.

Pure.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

Headers = Mapping[str, str]
"""The headers of a request by name in lower case, each byte a letter (latin-1); of one that was
sent twice, the last.
"""

_LOCALHOST = "localhost"
ELSEWHERE = ("cross-site", "same-site")  # as browsers name the page that a request comes from
_OPENED = ("navigate", "document")  # mode and destination of a link that somebody follows


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The status and the sentence that a request is refused with."""

    status: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The rules of one address: names that stand for it, those of its certificate of now, and the
    token that is asked for.
    """

    names: frozenset[str] = frozenset()
    token: str | None = None
    certified: Callable[[], frozenset[str]] = frozenset

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why a request with these headers is refused; None if it comes from no foreign page."""
        host = headers.get("host", "")
        if host and not self._is_own(host):
            return Refusal(
                status=403,
                reason=f"{host[:200]!r} is not a name of this broker: use its address, localhost, "
                "or a name that kbroker.http.hosts lists",
            )
        origin = headers.get("origin")
        is_foreign = origin is not None and netloc_of(origin) != host.lower()
        if is_foreign or _is_fetched_elsewhere(headers):
            return Refusal(status=403, reason="refused: the request comes from a page elsewhere")
        return None

    def knows(self, headers: Headers) -> bool:
        """Whether a request has the token, or none is asked for."""
        if self.token is None:
            return True
        given = _token_in(headers.get("authorization", ""))
        return hmac.compare_digest(given, self.token.encode("utf-8", "surrogateescape"))

    def _is_own(self, host: str) -> bool:
        name = _host_name(host)
        if name == _LOCALHOST or name in self.names or _is_address(name):
            return True
        return name in self.certified()


def names_of(listed: Iterable[str]) -> frozenset[str]:
    """Names as `Guard` compares them."""
    return frozenset(filter(None, (name.lower().rstrip(".") for name in listed)))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(host: str) -> str:
    """The name in a Host header, without port and brackets; empty for none that can be read."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def netloc_of(origin: str) -> str | None:
    """The host and the port of a page; None if it has none."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _is_fetched_elsewhere(headers: Headers) -> bool:
    """Whether a page elsewhere has this fetched, as an image or a script, which has no Origin. It
    could not read the answer, and yet have requests followed, or pages of metrics made.
    """
    if headers.get("sec-fetch-site") not in ELSEWHERE:
        return False
    return (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) != _OPENED


def _token_in(authorization: str) -> bytes:
    """The token of `Bearer TOKEN`, or the password of Basic, which browsers can ask for."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return rest.strip().encode("latin-1", "replace")
    if scheme.lower() != "basic":
        return b""
    try:
        return base64.b64decode(rest, validate=True).partition(b":")[2]
    except ValueError:  # also for letters that are not ASCII
        return b""
