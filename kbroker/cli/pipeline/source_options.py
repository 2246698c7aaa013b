"""Options that say where records come from: a cluster (`--bootstrap`) or directories (`--data`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from kbroker.cli.arguments.bootstrap_reading import wished_bootstrap
from kbroker.cli.arguments.connection import security_options
from kbroker.cli.arguments.directory_argument import PlaceArgument
from kbroker.cli.pipeline.parameters import names, pair
from kbroker.client.bootstrap import Bootstrap
from kbroker.client.client_error import ClientError
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.sources.connector_security import connector_security
from kbroker.pipeline.sources.kafka_source import READ_COMMITTED, READ_UNCOMMITTED, KafkaSource
from kbroker.pipeline.spark_job.source import Source

# Options of the connector, in small letters, that say what options of the job say.
_SAID_ELSEWHERE = {
    "assign": "--topics",
    "failondataloss": "--allow-loss",
    "kafka.bootstrap.servers": "--bootstrap",
    "kafka.isolation.level": "--isolation",
    "maxoffsetspertrigger": "--batch-records",
    "startingoffsets": "--checkpoint",
    "startingoffsetsbytimestamp": "--checkpoint",
    "startingtimestamp": "--checkpoint",
    "subscribe": "--topics",
    "subscribepattern": "--pattern",
}

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
SOURCE_OPTION_NAMES = ("bootstrap", "data", "topics", "pattern", "isolation", "kafka_option")


def source_options(command: CommandT) -> CommandT:
    """Adds the options; see `source_of` for what they make."""
    command = security_options(command)
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def source_of(ctx: click.Context) -> Source:
    """The source that the options of this call name."""
    values = ctx.params
    topics, pattern = values["topics"] or (), values["pattern"]
    check_choice(topics, pattern)
    bootstrap = wished_bootstrap(ctx, has_other_source=bool(values["data"]))
    if bool(values["data"]) == bool(bootstrap):
        raise click.UsageError(
            "give one source: --bootstrap HOST:PORT, or --data DIR (more than once for several)"
        )
    if bootstrap:
        return cluster_source(ctx, bootstrap, topics, pattern)
    if values["kafka_option"]:
        raise click.UsageError("--kafka-option is for --bootstrap, not for --data")
    from kbroker.pipeline.sources.log_directory_source import LogDirectorySource

    return LogDirectorySource(
        directories=values["data"],
        topics=topics,
        pattern=pattern,
        options={"isolation.level": values["isolation"]},
    )


def cluster_source(
    ctx: click.Context, bootstrap: Bootstrap, topics: tuple[str, ...], pattern: str | None = None
) -> KafkaSource:
    """Topics of a cluster, with the options of `CLUSTER_SOURCE_OPTIONS`."""
    values = ctx.params
    _check_kafka_options(name for name, _ in values["kafka_option"])
    try:
        security = connector_security(bootstrap.settings)
        source = KafkaSource(
            bootstrap=str(bootstrap),
            topics=topics,
            pattern=pattern,
            isolation_level=values["isolation"],
            options=security | dict(values["kafka_option"]),
        )
        tls = source.cluster.settings.tls
        if tls is not None:  # what the job's own client cannot do is refused at once
            from kbroker.client.tls import tls_context  # most commands need no ssl

            tls_context(tls)
    except (ClientError, PipelineError) as error:
        raise click.UsageError(error.sentence) from error
    return source


def _check_kafka_options(given: Iterable[str]) -> None:
    for name in given:
        option = _SAID_ELSEWHERE.get(name.lower())
        if option is not None:
            raise click.UsageError(
                f"--kafka-option {name}: the job sets that itself, give {option}"
            )


def check_choice(topics: Sequence[str], pattern: str | None) -> None:
    """Raises UsageError if it is not said, or said twice, which topics are meant."""
    if topics and pattern:
        raise click.UsageError("--topics and --pattern exclude each other")
    if not topics and not pattern:
        raise click.UsageError("say which topics: --topics A,B or --pattern REGEX")
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise click.UsageError(
            f"--pattern '{pattern}' is not a regular expression: {error}"
        ) from error


CLUSTER_SOURCE_OPTIONS = (
    click.option(
        "--isolation",
        type=click.Choice((READ_COMMITTED, READ_UNCOMMITTED)),
        default=READ_COMMITTED,
        show_default=True,
        help="Leave out records of aborted and open transactions, or not.",
    ),
    click.option(
        "--kafka-option",
        type=pair,
        multiple=True,
        metavar="KEY=VALUE",
        help="An option of Spark's Kafka source, such as kafka.max.poll.records=50000, or "
        "kafka.security.protocol=SASL_SSL. May be repeated.",
    ),
)
_OPTIONS = (
    click.option(
        "--bootstrap",
        envvar="KBROKER_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Read from this cluster, through Spark's Kafka connector (or KBROKER_BOOTSTRAP).",
    ),
    click.option(
        "--data",
        multiple=True,
        type=PlaceArgument(),
        metavar="DIR",
        help="Read this data directory of a broker, live or dead. May be repeated.",
    ),
    click.option("--topics", type=names, metavar="A,B", help="These topics."),
    click.option("--pattern", metavar="REGEX", help="Topics whose whole name matches."),
    *CLUSTER_SOURCE_OPTIONS,
)
