"""`--dry-run`: what a job would read, where it would begin, and which settings are in force."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from kbroker.cli.shown.output import counted, print_rows
from kbroker.pipeline.spark_job.checkpoint import JobRecord
from kbroker.pipeline.spark_job.secret_names import names_secret
from kbroker.pipeline.spark_job.stream_job import StreamJob

_ORIGINS = {
    ParameterSource.COMMANDLINE: "command line",
    ParameterSource.ENVIRONMENT: "environment",
    ParameterSource.DEFAULT_MAP: "configuration file",
}
_PARTITION_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "records")


def print_plan(job: StreamJob, output: str) -> None:
    """Print the plan of a job. Raises PipelineError if it could not run."""
    record = job.checkpoint.read(job.identity)
    rows = _partition_rows(job, record)
    settings = setting_rows(click.get_current_context())
    if output == "table":
        click.echo(f"source      {job.source.describe()}")
        click.echo(f"target      {job.settings.target or '-'}")
        click.echo(f"checkpoint  {job.checkpoint.directory} ({_state(job, record)})")
        to_do = sum(row["records"] for row in rows)
        most, places = counted(to_do, "record"), counted(len(rows), "partition")
        click.echo(f"to do       at most {most} of {places}\n")
        print_rows(rows, _PARTITION_COLUMNS, "table")
        click.echo()
        print_rows(settings, ("setting", "value", "origin"), "table")
    else:
        print_rows(rows, _PARTITION_COLUMNS, output)


def _partition_rows(job: StreamJob, record: JobRecord | None) -> list[dict[str, Any]]:
    earliest, latest = job.source.earliest(), job.source.latest()
    begun = record is not None and job.checkpoint.has_start()
    start = job.checkpoint.position(record) if begun and record is not None else earliest
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start_offset": start.get(partition, 0),
            "end_offset": end,
            "records": max(end - start.get(partition, 0), 0),
        }
        for partition, end in sorted(latest.items())
    ]


def _state(job: StreamJob, record: JobRecord | None) -> str:
    last = job.checkpoint.last_commit()
    if record is None or last is None:
        return "new" if record is None else f"job {record.job_id}, no batch yet"
    return f"job {record.job_id}, next batch is {last + 1}"


def setting_rows(ctx: click.Context) -> list[dict[str, Any]]:
    """A row for each option that has a value, with where it comes from."""
    rows = []
    for parameter in ctx.command.params:
        name = str(parameter.name)
        value = ctx.params.get(name)
        if value is None or value is False or value in ((), {}):
            continue
        origin = ctx.get_parameter_source(name)
        rows.append(
            {
                "setting": parameter.opts[0].removeprefix("--"),
                "value": _text(value),
                "origin": _ORIGINS.get(origin, "default") if origin else "default",
            }
        )
    return rows


def _pair_text(key: str, value: str) -> str:
    """Plans are shown to others and kept in logs: they leave secrets out."""
    return f"{key}={'(hidden)' if names_secret(key) else value}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple):
        return ",".join(
            _pair_text(*each) if isinstance(each, tuple) else str(each) for each in value
        )
    return str(value).lower() if isinstance(value, bool) else str(value)
