"""Questions of commands to the HTTP address of a broker."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import SplitResult, urlencode, urlsplit

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.http.health import problems_in

_READY = "/readyz"
_EVENTS = "/api/events"
_ANSWER_S = 5.0
_MOST_BYTES = 10_000_000
_OK = (200,)
_READY_OR_NOT = (200, 503)


def problems_at(url: str, token: str | None) -> list[str]:
    """Ask the broker at `http://HOST:PORT` what is wrong, and return a sentence for each check.

    Raises CommandError if no broker answers there.
    """
    place = _place(url)
    body = _body(url, place, place.path.rstrip("/") or _READY, token, _READY_OR_NOT)
    try:
        return problems_in(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{url} does not answer as a broker's health does") from error


def events_at(url: str, token: str | None, group: str) -> list[Mapping[str, Any]]:
    """Ask the broker at `http://HOST:PORT` what happened to a group, and return a row for each
    event, the oldest first.

    Raises CommandError if no broker answers there.
    """
    place = _place(url)
    path = f"{place.path.rstrip('/')}{_EVENTS}?{urlencode({'group': group})}"
    body = _body(url, place, path, token, _OK)
    try:
        rows = json.loads(body)["events"]
        return [{**row, "at_ms": int(row["at_ms"])} for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{url} does not answer as a broker does") from error


def _body(
    url: str, place: SplitResult, path: str, token: str | None, statuses: Collection[int]
) -> bytes:
    try:
        status, body = _asked(place, path, token)
    except TimeoutError as error:
        raise CommandError(
            f"{url} did not answer within {_ANSWER_S:g} s", ExitCode.TIMEOUT
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandError(f"cannot connect to {url}: {reason}", ExitCode.CANNOT_CONNECT) from error
    except HTTPException as error:
        raise CommandError(f"{url} does not answer as an HTTP server") from error
    if status not in statuses:
        line = body.decode("utf-8", "replace").partition("\n")[0]
        raise CommandError(f"{url} answered {status}: {line[:200]}")
    return body


def _place(url: str) -> SplitResult:
    place = urlsplit(url if "://" in url else f"http://{url}")
    try:
        is_sound = place.scheme in ("http", "https") and place.hostname and (place.port or True)
    except ValueError:
        is_sound = False
    if not is_sound:
        raise click.BadParameter(f"'{url}' is not http://HOST:PORT", param_hint="'--url'")
    return place


def _asked(place: SplitResult, path: str, token: str | None) -> tuple[int, bytes]:
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=_ANSWER_S)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_MOST_BYTES)
    finally:
        connection.close()
