"""`kbroker console`: serves the console of a cluster of any Kafka broker."""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click

from kbroker.cli.arguments.connection import (
    CommandError,
    ExitCode,
    bootstrap_option,
    link_errors,
)
from kbroker.client.bootstrap import check_reachable
from kbroker.config.http_addresses import is_loopback, parse_http_addresses
from kbroker.errors import ConfigError

if TYPE_CHECKING:
    from kbroker.http.answers import Application
    from kbroker.http.broker_loop import BrokerLoop
    from kbroker.http.http_server import HttpServer

_OPTION = "--listen"
_LISTEN = "127.0.0.1:8081"  # 8080 is a broker's own


@click.command()
@click.option(
    _OPTION,
    metavar="HOST:PORT",
    help=f"Address to listen on, port 0 picks a free one (default: {_LISTEN}, or the next free "
    "port).",
)
@click.option("--read-only", is_flag=True, help="Change nothing in the cluster.")
@click.option("--no-messages", is_flag=True, help="Show no content of messages.")
@click.option(
    "--token-file",
    type=click.File(encoding="utf-8"),
    metavar="FILE",
    help="File whose first line is the token that is asked for; needed if other machines reach the "
    "address.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name that browsers may use for the address, beside its own; may be repeated.",
)
@bootstrap_option
def console(
    bootstrap: str,
    listen: str | None,
    read_only: bool,
    no_messages: bool,
    token_file: TextIO | None,
    hosts: tuple[str, ...],
) -> None:
    """Serve a console for a browser, and the same as JSON, until Ctrl-C or SIGTERM.

    A broker of kbroker serves one of itself at its HTTP address; this one asks any Kafka broker, as
    a client does.
    """
    from kbroker.cli.broker.http_address import token_in
    from kbroker.http.http_server import HttpServer

    token = token_in(token_file)
    try:
        (end_point,) = parse_http_addresses(_OPTION, [listen or _LISTEN])
    except ConfigError as error:
        raise CommandError(f"{_OPTION} '{listen}' is not HOST:PORT", ExitCode.USAGE) from error
    if token is None and not is_loopback(end_point.host):
        raise CommandError(
            "other machines reach this address: give --token-file, or listen on 127.0.0.1",
            ExitCode.USAGE,
        )
    with link_errors(bootstrap):
        check_reachable(bootstrap)  # later a page says so, and comes back by itself
    made = partial(
        _application, bootstrap, (read_only, no_messages), ((*hosts, end_point.host), token)
    )
    try:
        asyncio.run(_serve(HttpServer([end_point], made, may_move=listen is None, setting=_OPTION)))
    except ConfigError as error:
        raise CommandError(str(error)) from error


async def _serve(server: HttpServer) -> None:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end.set)
    server.start()
    for end_point in server.end_points:
        click.echo(f"console at http://{str(end_point).partition('://')[2]}/")
    sys.stdout.flush()
    await end.wait()
    await server.stop()


def _application(
    bootstrap: str,
    limits: tuple[bool, bool],
    access: tuple[tuple[str, ...], str | None],
    _loop: BrokerLoop,
) -> Application:
    from kbroker.client.bootstrap import with_client_id
    from kbroker.console.consoled_cluster import ConsoledCluster
    from kbroker.console.web.app import CLIENT_ID, ConsoleApplication
    from kbroker.console.web.console import ConsoleOptions
    from kbroker.http.guard import Guard, names_of
    from kbroker.http.health_routes import CONSOLE, index_route
    from kbroker.http.routes import RouteTable

    read_only, no_messages = limits
    hosts, token = access
    cluster = ConsoledCluster(with_client_id(bootstrap, CLIENT_ID))
    options = ConsoleOptions(read_only=read_only, no_messages=no_messages)
    return RouteTable(
        routes={"/": index_route({CONSOLE: "the console, for a browser"})},
        guard=Guard(names=names_of(hosts), token=token),
        otherwise=ConsoleApplication(cluster, options),
    )
