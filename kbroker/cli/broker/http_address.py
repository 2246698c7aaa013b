"""The HTTP address of a broker as commands ask there, and what they say if it does not answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import socket
from typing import Final, TextIO
from urllib.parse import SplitResult, urlsplit

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode

DEFAULT_URL: Final = "http://127.0.0.1:8080"  # of a broker in dev
ANSWER_S: Final = 5.0  # how long a broker may take
_SHOWN_CHARACTERS = 200
_TOKEN_CHARACTERS = 4096
_PATH = re.compile(r"[!-~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAddress:
    """One address, as the user gave it, and the token for it."""

    url: str
    token: str | None = None

    @contextmanager
    def asked(self, path: str, query: str = "") -> Iterator[tuple[socket, HTTPResponse]]:
        """Ask for a path, below the one that the address may have; the connection is closed in the
        end. Raises BadParameter for what is not an address, CommandError if nothing answers there.
        """
        place = self._place()
        kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
        connection = kind(place.hostname or "", place.port, timeout=ANSWER_S)
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}".encode()}
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
            reason = error.strerror or str(error)
            raise CommandError(
                f"cannot connect to {self.url}: {reason}", ExitCode.CANNOT_CONNECT
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
        return CommandError(f"{self.url} answered {status}: {line[:_SHOWN_CHARACTERS]}")

    def _place(self) -> SplitResult:
        try:
            place = urlsplit(self.url if "://" in self.url else f"http://{self.url}")
            is_sound = place.scheme in ("http", "https") and place.hostname and (place.port or True)
        except ValueError:
            is_sound = False
        if not is_sound or not _PATH.fullmatch(place.path):
            raise click.BadParameter(f"'{self.url}' is not http://HOST:PORT", param_hint="'--url'")
        return place


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
