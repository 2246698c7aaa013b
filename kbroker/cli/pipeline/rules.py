"""`kbroker pipeline rules`: topics watched by rules, whose results go into topics exactly once.

kbroker pipeline rules RULES.toml --bootstrap HOST:PORT --checkpoint DIR (--once | --every 5s)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kbroker.cli.pipeline.job_display import StreamDisplay
from kbroker.cli.pipeline.stream_options import cluster_options
from kbroker.cli.shown.output import counted, say

if TYPE_CHECKING:
    from kbroker.pipeline.jobs.stream import Stream
    from kbroker.pipeline.spark_job.session import SessionSettings


@click.command("rules")
@click.argument("rules_file", metavar="RULES.toml", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--close-windows", is_flag=True,
    help="With --once: end all windows that are open, as if no event came any more.",
)  # fmt: skip
@cluster_options("The cluster to read from and write to (or KBROKER_BOOTSTRAP).")
def rules(
    stream: Stream,
    spark: SessionSettings,
    rules_file: str,
    close_windows: bool,
    metrics: str | None,
    dry_run: bool,
    output: str,
) -> int:
    """Watch topics by the rules of a file, and write what they find into topics, exactly once.

    Rules count, join and score events in windows of their own time, or keep a row for each key.
    Events that come too late, and records that do not fit, go into topics of their own.
    """
    from kbroker.cli.pipeline.rules_plan import print_rules_plan
    from kbroker.pipeline.jobs.rules import rules as run_rules

    display = StreamDisplay(metrics, output, print_rules_plan if dry_run else None)
    report = run_rules(rules_file, stream, close_windows=close_windows, spark=spark, events=display)
    rows = [f"{count:,} {name}" for name, count in sorted(report.counts.items()) if count]
    say(f"rows: {', '.join(rows) or 'none'}")
    for topic, count in sorted(report.written.items()):
        say(f"{topic}: {counted(count, 'record')} written")
    return display.exit_code(report)
