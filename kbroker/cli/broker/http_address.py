"""The HTTP address of a broker as commands ask there, and what they say if it does not answer."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from typing import Final, TextIO
from urllib.parse import SplitResult, urlsplit

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode, link_errors
from kbroker.client.connection_settings import UNSECURED, ConnectionSettings
from kbroker.config.http_addresses import is_loopback

DEFAULT_URL: Final = "http://127.0.0.1:8080"  # of a broker in dev
_DEFAULT_WITH_TLS: Final = "https://127.0.0.1:8080"
_WHICH: Final = " (--url names another address: a start in dev prints it as the console's)"
_UNKNOWN: Final = 401
ANSWER_S: Final = 5.0  # how long a broker may take
_SHOWN_CHARACTERS = 200
_TOKEN_CHARACTERS = 4096
_PATH = re.compile(r"[!-~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """One address, as the user gave it, and what is shown there: a token, or the login of settings,
    which also say whom to trust.
    """

    url: str
    token: str | None = None
    settings: ConnectionSettings = UNSECURED

    @contextmanager
    def asked(self, path: str, query: str = "") -> Iterator[tuple[socket, HTTPResponse]]:
        """Ask for a path, below the one that the address may have; the connection is closed in the
        end. Raises BadParameter for what is not an address, CommandError if nothing answers there.
        """
        place = self._place()
        connection = self._connection(place)
        shown = self._shown(place)
        headers = {} if shown is None else {"Authorization": shown}
        prefix = place.path.rstrip("/").removesuffix(path)
        target = f"{prefix}{path}?{query}" if query else f"{prefix}{path}"
        try:
            with self.reached():
                connection.request("GET", target, headers=headers)
                sock = connection.sock  # which an answer without length takes for itself
                answer = connection.getresponse()
            yield sock, answer
        finally:
            connection.close()

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Raise CommandError if the connection does not carry what is done with it."""
        try:
            yield
        except TimeoutError as error:
            raise CommandError(
                f"{self.url} did not answer within {ANSWER_S:g} s", ExitCode.TIMEOUT
            ) from error
        except OSError as error:
            reason = self._distrust(error) or error.strerror or str(error)
            hint = _WHICH if self.url in (DEFAULT_URL, _DEFAULT_WITH_TLS) else ""
            raise CommandError(
                f"cannot connect to {self.url}: {reason}{hint}", ExitCode.CANNOT_CONNECT
            ) from error
        except UnicodeError as error:  # of a part of a name that is empty, or too long
            raise CommandError(
                f"cannot connect to {self.url}: it has no host name", ExitCode.CANNOT_CONNECT
            ) from error
        except HTTPException as error:
            raise CommandError(f"{self.url} does not answer as an HTTP server") from error

    def refusal(self, status: int, body: bytes) -> CommandError:
        """The error that says what the address has answered instead."""
        line = body.decode("utf-8", "replace").partition("\n")[0]
        hint = " (--command-config FILE has the login)" if status == _UNKNOWN else ""
        return CommandError(f"{self.url} answered {status}: {line[:_SHOWN_CHARACTERS]}{hint}")

    def _connection(self, place: SplitResult) -> HTTPConnection:
        host = place.hostname or ""
        if place.scheme == "http":
            return HTTPConnection(host, place.port, timeout=ANSWER_S)
        from kbroker.client.connection_settings import Tls
        from kbroker.client.tls import tls_context

        with link_errors(self.url):
            context = tls_context(self.settings.tls or Tls())
        return HTTPSConnection(host, place.port, timeout=ANSWER_S, context=context)

    def _shown(self, place: SplitResult) -> bytes | None:
        """The token or the login; a password goes without TLS to this machine only."""
        if self.token is not None:
            return f"Bearer {self.token}".encode()
        login = self.settings.login
        is_safe = place.scheme == "https" or is_loopback(place.hostname or "")
        if login is None or login.tokens is not None or not is_safe:
            return None
        return b"Basic " + base64.b64encode(f"{login.username}:{login.password}".encode())

    def _distrust(self, error: OSError) -> str | None:
        if not self.url.startswith("https:"):
            return None
        from kbroker.client.connection_settings import Tls
        from kbroker.client.tls import tls_reason

        return tls_reason(error, self._place().hostname or "", self.settings.tls or Tls())

    def _place(self) -> SplitResult:
        try:
            place = urlsplit(self.url if "://" in self.url else f"http://{self.url}")
            is_sound = place.scheme in ("http", "https") and place.hostname and (place.port or True)
        except ValueError:
            is_sound = False
        if not is_sound or not _PATH.fullmatch(place.path):
            raise click.BadParameter(f"'{self.url}' is not http://HOST:PORT", param_hint="'--url'")
        return place


def http_addresses(
    urls: Iterable[str], token_file: TextIO | None, settings: ConnectionSettings
) -> list[HttpAddress]:
    """The addresses that options name, each once; the default one is https if the settings have
    TLS. Raises CommandError as `token_in`.
    """
    token = token_in(token_file)
    default = DEFAULT_URL if settings.tls is None else _DEFAULT_WITH_TLS
    found = dict.fromkeys(default if url == DEFAULT_URL else url for url in urls)
    return [HttpAddress(url=url, token=token, settings=settings) for url in found]


def token_in(file: TextIO | None) -> str | None:
    """The token that stands in the first line of a file; None without one. Raises CommandError for
    a file that has none.
    """
    if file is None:
        return None
    try:
        token = file.readline(_TOKEN_CHARACTERS).strip()
        lacks = "is empty" if not token else None
    except UnicodeDecodeError:
        token, lacks = "", "is not UTF-8 text"
    if lacks is None and not token.isprintable():
        lacks = "has control characters"
    if lacks is not None:
        raise CommandError(f"the first line of {file.name} {lacks}", ExitCode.USAGE)
    return token
