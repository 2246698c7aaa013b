"""Options of jobs that follow a source batch by batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from kbroker.cli.arguments.bootstrap_reading import bootstrap_of_call
from kbroker.cli.arguments.connection import security_options
from kbroker.cli.arguments.directory_argument import DirectoryArgument, PlaceArgument
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.parameters import names, pair
from kbroker.cli.pipeline.session_options import session_options
from kbroker.cli.shown.output import options, output_option
from kbroker.pipeline.sources.kafka_source import READ_COMMITTED, READ_UNCOMMITTED
from kbroker.pipeline.spark_job.batch import DEFAULT_BATCH_RECORDS

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_FIELDS = (
    "data", "topics", "pattern", "isolation", "kafka_options",
    "checkpoint", "name", "batch_records", "commit_offsets",
)  # fmt: skip


def source_options(command: CommandT) -> CommandT:
    """All options of a job that reads any source."""
    return _with_source(command, (*_PLACES, *_READING))


def cluster_options(bootstrap_help: str) -> Callable[[CommandT], CommandT]:
    """All options of a job that reads topics of a cluster, and knows which."""
    bootstrap = click.option(
        "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT", help=bootstrap_help
    )
    return lambda command: _with_source(command, (bootstrap, *_READING))


def _with_source(command: CommandT, source: tuple[Callable[[Any], Any], ...]) -> CommandT:
    """Add options of source, run and session; the command gets `stream: Stream` for them."""

    @functools.wraps(command)
    def call(*args: Any, **values: Any) -> Any:
        from kbroker.pipeline.jobs.stream import Stream  # what it takes to load help does not need

        ctx = click.get_current_context()
        del values["bootstrap"], values["once"], values["every"]
        given = {name: values.pop(name, None) for name in _FIELDS}
        stream = Stream(
            bootstrap=bootstrap_of_call(ctx, has_other_source=bool(given.get("data"))),
            every_s=every_s(ctx),
            **{name: value for name, value in given.items() if value is not None},
        )
        return command(*args, stream=stream, **values)

    run = options(*_RUN)(session_options(cast(CommandT, call)))
    return config_option(options(*source)(security_options(run)))


def every_s(ctx: click.Context) -> float | None:
    """Seconds from one look to the next, None for `--once`. The command line wins over a
    configuration file.
    """
    once: bool = ctx.params["once"]
    every: float | None = ctx.params["every"]
    if once and every is not None:
        sources = (ctx.get_parameter_source("once"), ctx.get_parameter_source("every"))
        if sources == (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP):
            return None
        if sources == (ParameterSource.DEFAULT_MAP, ParameterSource.COMMANDLINE):
            return every
        raise click.UsageError("--once and --every exclude each other")
    if not once and every is None and not ctx.params.get("dry_run"):
        raise click.UsageError("say how long it runs: --once, or --every DURATION such as 30s")
    return every


_PLACES = (
    click.option(
        "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
        help="Read from this cluster, through Spark's Kafka connector (or KBROKER_BOOTSTRAP).",
    ),
    click.option(
        "--data", multiple=True, type=PlaceArgument(), metavar="DIR",
        help="Read this data directory of a broker, live or dead. May be repeated.",
    ),
    click.option("--topics", type=names, metavar="A,B", help="These topics."),
    click.option("--pattern", metavar="REGEX", help="Topics whose whole name matches."),
)  # fmt: skip
_READING = (
    click.option(
        "--isolation", type=click.Choice((READ_COMMITTED, READ_UNCOMMITTED)),
        default=READ_COMMITTED, show_default=True,
        help="Leave out records of aborted and open transactions, or not.",
    ),
    click.option(
        "--kafka-option", "kafka_options", type=pair, multiple=True, metavar="KEY=VALUE",
        callback=lambda _ctx, _option, pairs: dict(pairs),
        help="An option of Spark's Kafka source, such as kafka.max.poll.records=50000, or "
        "kafka.security.protocol=SASL_SSL. May be repeated.",
    ),
)  # fmt: skip
_RUN = (
    click.option(
        "--checkpoint", required=True, type=DirectoryArgument(), metavar="DIR",
        help="Where the job notes how far it is: a directory of its own.",
    ),
    click.option(
        "--name", metavar="NAME", help="Name of the query in Spark; otherwise that of the job."
    ),
    click.option("--once", is_flag=True, help="Read what is there now, and stop."),
    click.option(
        "--every", type=duration, metavar="DURATION", help="Read on, a batch every 30s or so."
    ),
    click.option(
        "--batch-records", type=click.IntRange(min=1), default=DEFAULT_BATCH_RECORDS,
        show_default=True, metavar="N", help="Maximum records in a batch, over all partitions.",
    ),
    click.option(
        "--metrics", type=click.Path(dir_okay=False), metavar="FILE",
        help="Append a line of JSON per batch.",
    ),
    click.option(
        "--commit-offsets", is_flag=True,
        help="Commit finished batches as group spark-NAME, for tools that show lag.",
    ),
    click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing."),
    output_option,
)  # fmt: skip
