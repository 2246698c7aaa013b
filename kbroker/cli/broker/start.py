"""`kbroker start`: reads settings from file, environment and options, runs a broker or several, and
stops them on a signal.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.broker.log_format import JsonFormatter, TextFormatter
from kbroker.cli.broker.log_handler import CountingHandler
from kbroker.cli.shown.output import options, say

if TYPE_CHECKING:
    from kbroker.model import EndPoint
    from kbroker.server.start.launch import Hearer, Launch

_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("auto", "text", "json")
_REFUSALS = ("kbroker.apis.refused_requests", "kafka.authorizer.logger")
_EVENTS = ("kbroker.events.groups", "kbroker.events.producers")

setting_options = options(
    click.argument("properties", required=False, metavar="[server.properties]"),
    click.option(
        "--listen",
        "listen",
        multiple=True,
        metavar="HOST:PORT",
        help="Address to listen on, port 0 picks a free one; may be repeated "
        "(default: 127.0.0.1:9092).",
    ),
    click.option(
        "--open",
        "is_open",
        is_flag=True,
        help="Let in everybody who reaches these addresses, also from other machines.",
    ),
    click.option(
        "--data",
        metavar="DIR",
        help="Data directory (default: a temporary one that is removed at the end).",
    ),
    click.option(
        "--profile", type=click.Choice(["dev", "prod"]), help="Set of defaults (default: dev)."
    ),
    click.option(
        "--override",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting by Kafka's name; may be repeated.",
    ),
    click.option(
        "--zookeeper",
        metavar="HOST:PORT/chroot",
        help="Be part of the cluster whose metadata is in this ZooKeeper ensemble; its servers are "
        "separated by commas (default: a cluster of its own, without ZooKeeper).",
    ),
)
"""The arguments of a command that say which settings a start uses."""


@click.command()
@setting_options
@click.option(
    "--secure",
    metavar="DIR",
    help="Let in users alone, by TLS: DIR gets certificates and the login of a user admin, or has "
    "them from an earlier start.",
)
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Run N brokers of one cluster in this process: the others listen on the next free ports, "
    "with their data in DIR/broker-0 and so on (default: 1).",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Take over data that Apache Kafka wrote; without it, a start only says what it would do.",
)
@click.option(
    "--stop-at-eof",
    is_flag=True,
    help="Stop when standard input ends, too: a broker whose input is a pipe from the program that "
    "started it ends with that program, even if it is killed.",
)
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    help="Level from which lines are logged (default: warning, and refusals of requests; on a "
    "terminal also what happens to groups and producers).",
)
@click.option(
    "--log-format",
    type=click.Choice(_FORMATS),
    envvar="KBROKER_LOG_FORMAT",
    default="auto",
    help="Form of these lines on standard error: text for people, json for programs (default: text "
    "if it is a terminal, else json; also KBROKER_LOG_FORMAT).",
)
def start(
    properties: str | None = None,
    listen: Sequence[str] = (),
    is_open: bool = False,
    secure: str | None = None,
    data: str | None = None,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    brokers: int = 1,
    zookeeper: str | None = None,
    adopt: bool = False,
    stop_at_eof: bool = False,
    log_level: str | None = None,
    log_format: str = "auto",
) -> None:
    """Start a broker, or several, and run until Ctrl-C or SIGTERM.

    Settings come from, weakest first: the profile, the properties file, the environment
    (KAFKA_...), the options. Prints `listening on HOST:PORT` for each listener once clients can use
    it.
    """
    from kbroker.server.adoption.adopt_option import AdoptionNeededError
    from kbroker.server.start.launch import (
        LaunchError,
        StartOptions,
        UsageError,
        prepared,
        run_until_signal,
    )  # fmt: skip

    _set_up_logging(log_level, log_format)
    given = StartOptions(
        properties=properties,
        profile=profile,
        listen=listen,
        is_open=is_open,
        secure=secure,
        data=data,
        overrides=overrides,
        zookeeper=zookeeper,
        brokers=brokers,
        adopt=adopt,
    )
    try:
        with prepared(given, os.environ) as launch:
            for warning in launch.warnings():
                say(f"warning: {warning}")
            run_until_signal(launch, hearer(launch), end_of_input if stop_at_eof else None)
    except AdoptionNeededError as error:
        say(f"{error}\n{error.trouble.advice}")
        sys.exit(ExitCode.USAGE)
    except UsageError as error:
        raise CommandError(str(error), ExitCode.USAGE, error.trouble) from error
    except LaunchError as error:
        raise CommandError(str(error), ExitCode.ITEM_FAILED, error.trouble) from error


def hearer(launch: Launch) -> Hearer:
    """Return a hearer for the person at the terminal, and for readers of standard output."""
    from kbroker.cli.shown.recovery_display import recovery_line
    from kbroker.server.start.launch import Hearer

    def ready(end_points: Sequence[EndPoint]) -> None:
        for end_point in end_points:
            click.echo(f"listening on {str(end_point).partition('://')[2]}")
        sys.stdout.flush()
        notes = (
            launch.note_of_controllers(),
            launch.note_of_addresses(),
            launch.note_of_login(),
            launch.note_of_data(),
        )
        for note in notes:
            if note is not None:
                say(note)

    def http(end_points: Sequence[EndPoint]) -> None:
        login = launch.note_of_console_login()
        say(f"console at {' '.join(map(_url, end_points))}{f' ({login})' if login else ''}")

    return Hearer(ready=ready, adopted=say, watch_loading=recovery_line, http=http)


def _url(end_point: EndPoint) -> str:
    scheme = "https" if end_point.security_protocol == "SSL" else "http"
    return f"{scheme}://{str(end_point).partition('://')[2]}/"


def end_of_input() -> None:
    """Block until standard input ends."""
    with suppress(OSError):  # there is no input to read
        while os.read(0, 4096):
            pass


def _set_up_logging(level: str | None, form: str) -> None:
    is_terminal = sys.stderr.isatty()
    is_text = form == "text" or (form == "auto" and is_terminal)
    handler = CountingHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if is_text else JsonFormatter())
    logging.basicConfig(handlers=[handler], level=(level or "warning").upper())
    if level is None:
        # People who write a program against this broker look here for what is wrong with it, and
        # why its group waits.
        for name in (*_REFUSALS, *(_EVENTS if is_terminal else ())):
            logging.getLogger(name).setLevel(logging.INFO)
