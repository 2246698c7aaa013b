"""`kbroker wait`, `kbroker health` and `kbroker version`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from typing import TextIO

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import CommandError, ExitCode, bootstrap_option, cluster_links
from kbroker.cli.arguments.http_options import token_option
from kbroker.cli.shown.output import say
from kbroker.client.bootstrap import Bootstrap, option_of, settings_of
from kbroker.client.connection_settings import ConnectionSettings
from kbroker.errors import ErrorCode, Trouble
from kbroker.http.health import NO_CONTROLLER, NO_LEADER, leaderless
from kbroker.model import NO_CONTROLLER as NO_CONTROLLER_ID
from kbroker.model import TopicPartition

_SETTINGS = "--settings"
_RETRY_S = 0.05
_ANSWER_S = 5.0
_LEAST_ANSWER_S = 1.0
_NO_SUCH_TOPIC = "no such topic: "
_MISSING = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


@click.command()
@click.option(
    "--timeout",
    "timeout_s",
    type=float,
    default=30.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    shell_complete=topic_names,
    help="Wait until this topic has a leader everywhere; may be repeated.",
)
@click.option(
    _SETTINGS,
    "properties",
    metavar="FILE|-",
    help="Ask the broker that `kbroker start FILE` would start here, with the same variables: its "
    "first listener; -: without a file.",
)
@bootstrap_option
def wait(bootstrap: str, timeout_s: float, topics: tuple[str, ...], properties: str | None) -> None:
    """Return as soon as the broker answers; exit code 124 when it did not within --timeout."""
    ask: Callable[[str, tuple[str, ...]], list[str]] = _problems
    if properties is not None:
        from kbroker.cli.broker.own_listener import own_listener, problems_of_closed

        bootstrap, is_closed = own_listener(properties, bootstrap)
        if is_closed and topics:
            raise click.UsageError("--topic asks as a user: give --command-config too")
        if is_closed:
            ask = problems_of_closed
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            problems = ask(_in_time(bootstrap, deadline), topics)
        except CommandError as error:
            if error.code not in (ExitCode.CANNOT_CONNECT, ExitCode.TIMEOUT):
                raise
            problems, trouble = [error.message], error.trouble or Trouble.NO_ANSWER
        else:
            is_missing = any(problem.startswith(_NO_SUCH_TOPIC) for problem in problems)
            trouble = Trouble.UNKNOWN_TOPIC if is_missing else Trouble.NO_ANSWER
        if not problems:
            return
        if not time.monotonic() < deadline:
            reason = "; ".join(problems)
            raise CommandError(
                f"{bootstrap} was not ready within {timeout_s:g} s: {reason}",
                ExitCode.TIMEOUT,
                trouble,
            )
        time.sleep(_RETRY_S)


@click.command()
@click.option(
    "--url",
    metavar="http://HOST:PORT",
    help="Ask the broker at its HTTP address (kbroker.http.listeners) instead: whether it is "
    "ready, as /readyz says.",
)
@token_option
@bootstrap_option
def health(bootstrap: str, url: str | None, token_file: TextIO | None) -> None:
    """Exit code 0 when the broker answers and every partition has a leader, 1 when one has none, 3
    when nobody listens, 124 when there is no answer in time.
    """
    if url is not None:
        _say_what_it_says(url, token_file, settings_of(bootstrap))
        return
    problems = _problems(bootstrap, None)
    if problems:
        is_leaderless = any(problem.endswith(NO_LEADER) for problem in problems)
        raise CommandError(
            "; ".join(problems),
            ExitCode.ITEM_FAILED,
            Trouble.NO_LEADER if is_leaderless else None,
        )
    say(f"{bootstrap} is healthy")


def _say_what_it_says(url: str, token_file: TextIO | None, settings: ConnectionSettings) -> None:
    from kbroker.cli.broker.asked_over_http import problems_at
    from kbroker.cli.broker.http_address import http_addresses

    (address,) = http_addresses([url], token_file, settings)
    problems = problems_at(address)
    if problems:
        is_leaderless = any(NO_LEADER in problem for problem in problems)
        raise CommandError(
            "; ".join(problems), ExitCode.ITEM_FAILED, Trouble.NO_LEADER if is_leaderless else None
        )
    say(f"{address.url} is ready")


@click.command()
def version() -> None:
    """Print the version of kbroker."""
    click.echo(f"kbroker {metadata.version('kbroker')}")


def _in_time(bootstrap: str, deadline: float) -> Bootstrap:
    """Return the same cluster for a caller that waits for answers only while there is time, but at
    least for a second: in less, a busy broker could not even say what it lacks.
    """
    settings = settings_of(bootstrap)
    left_s = max(_LEAST_ANSWER_S, deadline - time.monotonic())
    answer_s = min(settings.request_timeout_s or _ANSWER_S, left_s)
    timed = replace(settings, request_timeout_s=answer_s)
    return Bootstrap(bootstrap, timed, option_of(bootstrap))


def _problems(bootstrap: str, topics: tuple[str, ...] | None) -> list[str]:
    """List the problems of a cluster; `topics` None looks at all topics."""
    with cluster_links(bootstrap) as links:
        described = links.describe(topics)
    if described.controller_id == NO_CONTROLLER_ID:
        return [NO_CONTROLLER]
    problems = [
        f"{_NO_SUCH_TOPIC}{topic.name}"
        for topic in described.topics
        if topic.error_code in _MISSING
    ]
    problems += [
        leaderless(TopicPartition(topic.name or "", partition.partition_index))
        for topic in described.topics
        for partition in topic.partitions
        if partition.leader_id < 0
    ]
    return problems
