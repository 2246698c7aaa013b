"""`kbroker top`: topics by rate, groups by lag and time to catch up, brokers, connections."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TextIO

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode, bootstrap_option, link_errors
from kbroker.cli.arguments.http_options import token_option
from kbroker.client.bootstrap import addresses_of, option_of, settings_of

_TABLE, _JSON = "table", "json"
_INTERVAL_S, _ONCE_S = 2.0, 6.0  # the latter sees a commit of clients, which make one every 5 s
_LEAST_S = 0.5
NO_TEXTUAL = (
    "the screen needs textual: pip install 'kbroker[top]' (`kbroker top --once` does without)"
)
_NO_TERMINAL = "the screen needs a terminal: `kbroker top --once` prints the figures once"


@click.command()
@click.option("--once", is_flag=True, help="Print the figures once, without a screen.")
@click.option(
    "--output",
    type=click.Choice([_TABLE, _JSON]),
    help="How --once prints them.  [default: table]",
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=_LEAST_S),
    metavar="S",
    help=f"Seconds between two looks.  [default: {_INTERVAL_S:g}; with --once {_ONCE_S:g}]",
)
@click.option("--filter", "text", default="", metavar="TEXT", help="Only names that hold this.")
@click.option(
    "--internal",
    is_flag=True,
    help="Show internal topics, and the groups of kbroker's own jobs, too.",
)
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="http://HOST:PORT",
    help="HTTP address of a kbroker (kbroker.http.listeners), to show its connections; may be "
    "repeated.",
)
@token_option
@bootstrap_option
def top(
    bootstrap: str,
    once: bool,
    output: str | None,
    interval_s: float | None,
    text: str,
    internal: bool,
    urls: Sequence[str],
    token_file: TextIO | None,
) -> None:
    """Show what a cluster does now: topics by what is written to them in a second, groups by lag
    and the time until they catch up, brokers, and connections.

    Works with any Kafka broker: figures come from end offsets, sizes and committed offsets of two
    looks. On the screen, 1 to 4 choose the table, s sorts by the next column, / filters, q ends it.
    """
    from kbroker.cli.broker.http_address import http_addresses
    from kbroker.cli.top.connections import connections_of
    from kbroker.cli.top.wanted import Wanted

    if output is not None and not once:
        raise click.UsageError("--output needs --once")
    asked = http_addresses(urls, token_file, settings_of(bootstrap))
    connections = connections_of(asked)
    wanted = Wanted(text=text, has_internal=internal)
    if once:
        from kbroker.cli.top.once import look_once, print_json, print_tables

        with link_errors(bootstrap):
            look = look_once(bootstrap, interval_s or _ONCE_S, connections)
        (print_json if output == _JSON else print_tables)(look, wanted)
        return
    if find_spec("textual") is None:
        raise CommandError(NO_TEXTUAL, ExitCode.USAGE)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CommandError(_NO_TERMINAL, ExitCode.USAGE)
    with link_errors(bootstrap):
        list(addresses_of(bootstrap, option_of(bootstrap)))  # a malformed one stays malformed
    from kbroker.cli.top.screen import TopScreen
    from kbroker.cli.top.watch import Watch
    from kbroker.console.consoled_cluster import ConsoledCluster

    cluster = ConsoledCluster(bootstrap)
    watch = Watch(cluster, interval_s or _INTERVAL_S, connections)
    TopScreen(watch.looks(), bootstrap, wanted).run()
