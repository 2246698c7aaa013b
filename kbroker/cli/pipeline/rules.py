"""`kbroker pipeline rules`: topics watched by rules, whose results go into topics exactly once.

kbroker pipeline rules RULES.toml --bootstrap HOST:PORT --checkpoint DIR (--once | --every 5s)
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbroker.cli.arguments.bootstrap_reading import wished_bootstrap
from kbroker.cli.arguments.connection import link_errors, security_options
from kbroker.cli.pipeline.source_options import CLUSTER_SOURCE_OPTIONS, cluster_source
from kbroker.cli.pipeline.stream_command import AroundRun, run_stream_job
from kbroker.cli.pipeline.stream_options import SourceOptions, StreamOptions, run_options
from kbroker.cli.shown.output import counted, say
from kbroker.cli.topic.changes import made_topics, refuse_topics
from kbroker.client.cluster_links import ClusterLinks
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs.rule_reading import read_rules
from kbroker.pipeline.rule_jobs.rule_spec import RulesSpec
from kbroker.pipeline.sources.kafka_source import KafkaSource

if TYPE_CHECKING:
    from kbroker.pipeline.rule_jobs.rules_job import RulesJob

_SPEC = "kbroker.rules"  # in the context's `meta`: the file is read once


def _add_source_options(command: Any) -> Any:
    command = security_options(command)
    for option in reversed(CLUSTER_SOURCE_OPTIONS):
        command = option(command)
    return click.option(
        "--bootstrap", envvar="KBROKER_BOOTSTRAP", metavar="HOST:PORT",
        help="The cluster to read from and write to (or KBROKER_BOOTSTRAP).",
    )(command)  # fmt: skip


def _spec_of(ctx: click.Context) -> RulesSpec:
    if _SPEC not in ctx.meta:
        try:
            ctx.meta[_SPEC] = read_rules(Path(ctx.params["rules_file"]))
        except PipelineError as error:
            raise click.UsageError(error.sentence) from error
    spec: RulesSpec = ctx.meta[_SPEC]
    return spec


def _source_of(ctx: click.Context) -> KafkaSource:
    bootstrap = wished_bootstrap(ctx, has_other_source=False)
    if not bootstrap:
        raise click.UsageError("give --bootstrap HOST:PORT: the cluster to read from and write to")
    spec = _spec_of(ctx)
    topics = tuple(topic for each in spec.inputs.values() for topic in each.topics)
    return cluster_source(ctx, bootstrap, topics)


_SOURCES = SourceOptions(
    _add_source_options,
    ("bootstrap", "isolation", "kafka_option"),
    _source_of,
    lambda ctx: _spec_of(ctx).name,
)


def _with_run_options(command: Callable[..., int]) -> Callable[..., int]:
    return run_options(command, _SOURCES)


@click.command("rules")
@click.argument("rules_file", metavar="RULES.toml", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--close-windows", is_flag=True,
    help="With --once: end all windows that are open, as if no event came any more.",
)  # fmt: skip
@_with_run_options
@click.pass_context
def rules(
    ctx: click.Context, /, options: StreamOptions, rules_file: str, close_windows: bool
) -> int:
    """Watch topics by the rules of a file, and write what they find into topics, exactly once.

    Rules count, join and score events in windows of their own time, or keep a row for each key.
    Events that come too late, and records that do not fit, go into topics of their own.
    """
    from kbroker.cli.pipeline.rules_plan import print_rules_plan
    from kbroker.pipeline.rule_jobs.lookup_tables import LookupTables
    from kbroker.pipeline.rule_jobs.partitions_look import look_at
    from kbroker.pipeline.rule_jobs.rules_job import RulesJob

    spec = _spec_of(ctx)
    source = options.source
    assert isinstance(source, KafkaSource)
    if close_windows and options.every_s is not None:
        raise click.UsageError("--close-windows is for --once: windows of a stream end by time")
    if options.is_dry_run:
        return print_rules_plan(spec, options)
    tables = LookupTables(spec.tables.values(), source.of_topic)
    job = RulesJob(spec, source, options.checkpoint, tables, partial(look_at, source))
    around = AroundRun(
        before=lambda spark: _begin(spark, spec, rules_file, source, tables),
        at_end=job.close_windows if close_windows else AroundRun().at_end,
    )
    target = f"rules {spec.name}"
    check = lambda _start, _position: job.check_shape()  # noqa: E731  # before Spark starts
    code = run_stream_job(options, "rules", target, job.work, check, around)
    _say_result(job)
    return code


def _begin(spark: Any, spec: RulesSpec, rules_file: str, source: KafkaSource, tables: Any) -> None:
    """All that is checked with Spark, and the topics that are missing."""
    from kbroker.pipeline.rule_jobs.rule_check import check_rules

    check_rules(spark, spec, rules_file)
    tables.views(spark)
    with link_errors(source.bootstrap), closing(ClusterLinks(source.cluster)) as links:
        for name, topic in spec.output_topics().items():
            if links.ready_topic(name) is None:
                refuse_topics(
                    made_topics(
                        links,
                        [name],
                        topic.settings,
                        partitions=topic.partitions,
                        replication_factor=topic.replication_factor,
                    )
                )


def _say_result(job: RulesJob) -> None:
    rows = [f"{count:,} {name}" for name, count in sorted(job.counts.items()) if count]
    say(f"rows: {', '.join(rows) or 'none'}")
    for topic, count in sorted(job.written.items()):
        say(f"{topic}: {counted(count, 'record')} written")
