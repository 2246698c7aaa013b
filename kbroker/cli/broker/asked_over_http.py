"""Questions of commands to the HTTP address of a broker."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.broker.http_address import HttpAddress
from kbroker.http.health import problems_in

_READY = "/readyz"
_EVENTS = "/api/events"
_CONNECTIONS = "/api/connections"
_MOST_BYTES = 10_000_000
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_OK = (200,)
_READY_OR_NOT = (200, 503)


def problems_at(address: HttpAddress) -> list[str]:
    """Ask a broker what is wrong, and return a sentence for each check.

    Raises CommandError if no broker answers there.
    """
    body = _body(address, _READY, "", _READY_OR_NOT)
    try:
        return problems_in(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CommandError(f"{address.url} does not answer as a broker's health does") from error


def events_at(address: HttpAddress, group: str) -> list[Mapping[str, Any]]:
    """Ask a broker what happened to a group, and return a row for each event, the oldest first.

    Raises CommandError if no broker answers there.
    """
    query = urlencode({"group": group}, errors="surrogateescape")
    body = _body(address, _EVENTS, query, _OK)
    try:
        rows = json.loads(body)["events"]
        return [{**row, "at_ms": _moment(row["at_ms"])} for row in rows]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise CommandError(f"{address.url} does not answer as a broker does") from error


def _moment(value: Any) -> int:
    at_ms = int(value)
    if not 0 <= at_ms <= _LAST_MS:
        raise ValueError("no time of a calendar")
    return at_ms


def connections_at(address: HttpAddress) -> list[Mapping[str, Any]]:
    """Ask a broker who is connected, and return a row for each connection, as
    `OpenConnection.value` gives it.

    Raises CommandError if no broker answers there.
    """
    body = _body(address, _CONNECTIONS, "", _OK)
    try:
        rows = json.loads(body)["connections"]
        return [_connection(row) for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{address.url} does not answer as a broker does") from error


def _connection(row: Mapping[str, Any]) -> Mapping[str, Any]:
    texts = {name: str(row[name]) for name in ("address", "software", "principal", "listener")}
    numbers = {name: int(row[name]) for name in ("requests", "bytes_in", "bytes_out", "idle_ms")}
    apis = {str(name): int(version) for name, version in row["apis"].items()}
    client_id = row["client_id"] and str(row["client_id"])
    return {"client_id": client_id, **texts, "apis": apis, **numbers}


def _body(address: HttpAddress, path: str, query: str, statuses: Collection[int]) -> bytes:
    with address.asked(path, query) as (_, answer), address.reached():
        status, body = answer.status, answer.read(_MOST_BYTES)
    if status not in statuses:
        raise address.refusal(status, body)
    return body
