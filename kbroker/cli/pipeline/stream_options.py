"""Options of jobs that follow a source batch by batch, and the run of such a job: plan, progress,
report, exit code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import click
from click.core import ParameterSource

from kbroker.cli.arguments.directory_argument import DirectoryArgument
from kbroker.cli.arguments.time_argument import duration
from kbroker.cli.pipeline.config_file import config_option
from kbroker.cli.pipeline.session_options import SessionOptions, session_options
from kbroker.cli.pipeline.source_options import SOURCE_OPTION_NAMES, source_of, source_options
from kbroker.cli.shown.output import output_option
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.source import Source
from kbroker.pipeline.spark_job.stream_job import DEFAULT_BATCH_RECORDS

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_NAMES = (
    "checkpoint", "name", "once", "every", "batch_records", "metrics", "commit_offsets", "dry_run",
    "output",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """What was given, for `run_stream_job`."""

    source: Source
    session: SessionOptions
    checkpoint: str
    name: str
    every_s: float | None  # None: once
    batch_records: int
    metrics: Path | None
    is_dry_run: bool
    output: str
    commit_to: KafkaSource | None = None  # whose cluster is told of finished batches


def stream_job_options(command: CommandT) -> CommandT:
    """Adds `--config` and all options of source, session and run; the command gets them as
    `options: StreamOptions`, beside its own.
    """

    def source(ctx: click.Context) -> Source:
        return source_of(ctx)

    return run_options(command, SourceOptions(source_options, SOURCE_OPTION_NAMES, source))


class SourceOptions(NamedTuple):
    """Options that say what a job reads, and what is made of them."""

    add: Callable[[Any], Any]  # to a command
    names: tuple[str, ...]  # of those that the command itself does not get
    source_of: Callable[[click.Context], Source]
    name_of: Callable[[click.Context], str] = lambda ctx: str(ctx.info_name)  # of a job without one


def run_options(command: CommandT, sources: SourceOptions) -> CommandT:
    """As `stream_job_options`, for a job that has its own way to say what it reads."""

    @functools.wraps(command)
    def call(*args: Any, session: SessionOptions, **values: Any) -> Any:
        ctx = click.get_current_context()
        source = sources.source_of(ctx)
        given = {name: values.pop(name) for name in (*_NAMES, *sources.names)}
        options = StreamOptions(
            source=source,
            session=session,
            checkpoint=given["checkpoint"],
            name=given["name"] or sources.name_of(ctx),
            every_s=every_s(ctx),
            batch_records=given["batch_records"],
            metrics=Path(given["metrics"]) if given["metrics"] else None,
            is_dry_run=given["dry_run"],
            output=given["output"],
            commit_to=_commit_to(given, source),
        )
        return command(*args, options=options, **values)

    decorated: Any = session_options(call)
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast(CommandT, config_option(sources.add(decorated)))


def _commit_to(given: dict[str, Any], source: Source) -> KafkaSource | None:
    if not given["commit_offsets"]:
        return None
    if not isinstance(source, KafkaSource):
        raise click.UsageError("--commit-offsets is for --bootstrap, not for --data")
    return source


def every_s(ctx: click.Context) -> float | None:
    """Seconds from one look to the next, None for `--once`. What the command line says wins over a
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


_OPTIONS = (
    click.option(
        "--checkpoint",
        required=True,
        type=DirectoryArgument(),
        metavar="DIR",
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
        "--batch-records",
        type=click.IntRange(min=1),
        default=DEFAULT_BATCH_RECORDS,
        show_default=True,
        metavar="N",
        help="Maximum records in a batch, over all partitions.",
    ),
    click.option(
        "--metrics",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Append a line of JSON per batch.",
    ),
    click.option(
        "--commit-offsets",
        is_flag=True,
        help="Commit finished batches as group spark-NAME, for tools that show lag.",
    ),
    click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing."),
    output_option,
)
