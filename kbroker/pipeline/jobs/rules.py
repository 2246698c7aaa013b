"""Topics watched by rules, whose results go into topics exactly once."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.topic_changes import made_topics
from kbroker.pipeline.cluster_errors import job_errors
from kbroker.pipeline.errors import OptionsError, PipelineError
from kbroker.pipeline.jobs.stream import Stream, run_stream
from kbroker.pipeline.rule_jobs.lookup_tables import LookupTables
from kbroker.pipeline.rule_jobs.partitions_look import look_at
from kbroker.pipeline.rule_jobs.rule_check import check_rules
from kbroker.pipeline.rule_jobs.rule_reading import read_rules
from kbroker.pipeline.rule_jobs.rule_spec import RulesSpec
from kbroker.pipeline.rule_jobs.rules_job import RulesJob
from kbroker.pipeline.sources.kafka_source import KafkaSource
from kbroker.pipeline.spark_job.batch import JobReport
from kbroker.pipeline.spark_job.job_events import NOBODY, JobEvents
from kbroker.pipeline.spark_job.session import OWN_SESSION


class RulesPlan(NamedTuple):
    """Rules, and the topics that they read."""

    name: str
    spec: RulesSpec
    source: KafkaSource


def rules(
    rules_file: str,
    stream: Stream,
    *,
    close_windows: bool = False,
    spark: Any = OWN_SESSION,
    events: JobEvents = NOBODY,
) -> JobReport:
    """Watch topics of a cluster by the rules of a file, and write what they find into its topics.

    The rules name the topics of the `stream`. `close_windows`: end all windows that are open at the
    end. `spark`: a SparkSession, which stays open, or SessionSettings for one of its own. Raises
    PipelineError.
    """
    if not stream.bootstrap:
        raise OptionsError("give --bootstrap HOST:PORT: the cluster to read from and write to")
    try:
        spec = read_rules(Path(rules_file))
    except PipelineError as error:
        raise OptionsError(error.sentence) from error
    topics = tuple(topic for each in spec.inputs.values() for topic in each.topics)
    stream = replace(stream, topics=topics, name=stream.name or spec.name)
    source = stream.source()
    assert isinstance(source, KafkaSource)
    if close_windows and stream.every_s is not None:
        raise OptionsError("--close-windows is for --once: windows of a stream end by time")
    events.planned(RulesPlan(stream.name, spec, source), over_spark=True)

    tables = LookupTables(spec.tables.values(), source.of_topic)
    job = RulesJob(spec, source, stream.checkpoint, tables, partial(look_at, source))

    def begin(session: Any) -> None:
        check_rules(session, spec, rules_file)
        tables.views(session)
        _make_topics(spec, source, events)

    report = run_stream(
        stream.job(source, "rules", f"rules {spec.name}", job.work, lambda *_: job.check_shape()),
        spark,
        events,
        commit_to=source if stream.commit_offsets else None,
        before=begin,
        at_end=job.close_windows if close_windows else lambda *_: None,
    )
    return replace(report, counts=dict(job.counts), written=dict(job.written))


def _make_topics(spec: RulesSpec, source: KafkaSource, events: JobEvents) -> None:
    """Make those that are missing."""
    with job_errors(source.bootstrap), closing(ClusterLinks(source.cluster)) as links:
        for name, topic in spec.output_topics().items():
            if links.ready_topic(name) is None:
                for refusal in made_topics(
                    links,
                    [name],
                    topic.settings,
                    events.note,
                    partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                ):
                    raise PipelineError(refusal.sentence)
