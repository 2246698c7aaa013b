"""`kbroker trace`: who asks a broker for what, as it answers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from socket import socket
from typing import Any, TextIO
from urllib.parse import urlencode

import click

from kbroker.cli.arguments.bootstrap_reading import settings_of_call
from kbroker.cli.arguments.connection import CommandError, security_options
from kbroker.cli.arguments.http_options import token_option
from kbroker.cli.broker.http_address import DEFAULT_URL, http_addresses
from kbroker.cli.broker.trace_lines import HEAD, line_of
from kbroker.cli.shown.output import counted, say
from kbroker.tracing.trace_filter import PATH
from kbroker.tracing.trace_reader import MISSED

_TABLE, _LINES = "table", "jsonl"
_LONGEST_LINE_BYTES = 1_000_000
_FINE = 200
_PATTERN = "PATTERN"
_NO_REQUEST = (  # what comes of a line that another program wrote
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


@click.command()
@click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    metavar="http://HOST:PORT",
    help="HTTP address of the broker (kbroker.http.listeners).",
)
@token_option
@security_options
@click.option(
    "--client-id",
    multiple=True,
    metavar=_PATTERN,
    help="Only clients with this id; * and ? stand for anything. This and the others may be "
    "repeated.",
)
@click.option(
    "--address", multiple=True, metavar=_PATTERN, help="Only clients at this HOST or HOST:PORT."
)
@click.option("--api", multiple=True, metavar=_PATTERN, help="Only this API, such as Fetch.")
@click.option("--topic", multiple=True, metavar=_PATTERN, help="Only what names this topic.")
@click.option(
    "--code",
    multiple=True,
    metavar=_PATTERN,
    help="Only answers with this error code, by name or number; '*': with any, NONE: without.",
)
@click.option("--slower-than", type=float, metavar="MS", help="Only what took longer to answer.")
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many requests.")
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after this time.")
@click.option(
    "--output",
    type=click.Choice([_TABLE, _LINES]),
    default=_TABLE,
    show_default=True,
    help="How requests are printed.",
)
def trace(
    url: str,
    token_file: TextIO | None,
    slower_than: float | None,
    count: int | None,
    seconds: float | None,
    output: str,
    **patterns: tuple[str, ...],
) -> None:
    """Follow the requests that a broker answers: who asks for what, how long it takes, with which
    errors. Ctrl-C ends it.

    Names, sizes and times are shown; records, passwords and values of settings never are. The
    broker looks at its requests in this way only while somebody follows them.
    """
    query = [(name, each) for name, given in patterns.items() for each in given]
    if slower_than is not None:
        query.append(("slower_than_ms", str(slower_than)))
    settings = settings_of_call(click.get_current_context())
    (address,) = http_addresses([url], token_file, settings)
    with address.asked(PATH, urlencode(query, errors="surrogateescape")) as (sock, answer):
        if answer.status != _FINE:
            with address.reached():
                body = answer.read(_LONGEST_LINE_BYTES)
            raise address.refusal(answer.status, body)
        say(f"following the broker at {url}")  # which --url may not have named
        values = _values(sock, answer, seconds)
        try:
            is_enough = _print_all(values, count, output)
        except _NO_REQUEST as error:
            raise CommandError(f"{address.url} does not answer as a broker does") from error
    if not is_enough and seconds is None:
        raise CommandError(
            f"{address.url} has ended: the broker has stopped, or this has not kept up"
        )


def _print_all(values: Iterator[dict[str, Any]], count: int | None, output: str) -> bool:
    """Print requests, and return whether there were `count`. Raises KeyError, TypeError, ValueError
    or AttributeError for a value that is none.
    """
    if output == _TABLE:
        click.echo(HEAD)
    printed = 0
    for value in values:
        if MISSED in value:
            say(f"{counted(value[MISSED], 'request')} missed: they come faster than they are read")
            continue
        click.echo(line_of(value) if output == _TABLE else json.dumps(value))
        printed += 1
        if printed == count:
            return True
    return False


def _values(sock: socket, answer: HTTPResponse, seconds: float | None) -> Iterator[dict[str, Any]]:
    """Yield what the lines hold, until they end or time is up."""
    ends_s = None if seconds is None else time.monotonic() + seconds
    while True:
        if ends_s is not None and ends_s <= time.monotonic():
            return
        sock.settimeout(None if ends_s is None else max(ends_s - time.monotonic(), 0.001))
        try:
            line = answer.readline(_LONGEST_LINE_BYTES)
        except (OSError, HTTPException):  # time is up, or the broker has gone
            return
        if not line.endswith(b"\n"):
            return
        yield json.loads(line)
