"""`kbroker health --url`: what a broker itself says of its health, at its HTTP address."""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.http.health import problems_in

_PATH = "/readyz"
_ANSWER_S = 5.0
_MOST_BYTES = 1_000_000
_ANSWERED = (200, 503)  # ready or not


def problems_at(url: str, token: str | None) -> list[str]:
    """Ask the broker at `http://HOST:PORT` what is wrong, and return a sentence for each check.

    Raises CommandError if no broker answers there.
    """
    place = _place(url)
    try:
        status, body = _asked(place, token)
    except TimeoutError as error:
        raise CommandError(
            f"{url} did not answer within {_ANSWER_S:g} s", ExitCode.TIMEOUT
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(f"cannot connect to {url}: {reason}", ExitCode.CANNOT_CONNECT) from error
    except HTTPException as error:
        raise CommandError(f"{url} does not answer as an HTTP server") from error
    if status not in _ANSWERED:
        line = body.decode("utf-8", "replace").partition("\n")[0]
        raise CommandError(f"{url} answered {status}: {line[:200]}")
    try:
        return problems_in(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{url} does not answer as a broker's health does") from error


def _place(url: str) -> SplitResult:
    place = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_sound = place.scheme in ("http", "https") and place.hostname and (place.port or True)
    except ValueError:
        is_sound = False
    if not is_sound:
        raise click.BadParameter(f"'{url}' is not http://HOST:PORT", param_hint="'--url'")
    return place


def _asked(place: SplitResult, token: str | None) -> tuple[int, bytes]:
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=_ANSWER_S)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", place.path.rstrip("/") or _PATH, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_BYTES)
    finally:
        connection.close()
