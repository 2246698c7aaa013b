"""`kbroker pipeline`: jobs on Spark. A job is imported when it is called, Spark when it runs."""

from __future__ import annotations

import click

from kbroker.cli.lazy_commands import LazyCommand, LazyGroup

_COMMANDS = {
    "archive": LazyCommand(
        "kbroker.cli.pipeline.archive", "archive", "Keep topics as Parquet, every record once."
    ),
    "audit": LazyCommand(
        "kbroker.cli.pipeline.audit",
        "audit",
        "Check data directories, archive and cluster against each other.",
    ),
    "restore": LazyCommand(
        "kbroker.cli.pipeline.restore",
        "restore",
        "Write an archive back, into topics or as a directory.",
    ),
    "mirror": LazyCommand(
        "kbroker.cli.pipeline.mirror", "mirror", "Keep topics as copies in another cluster."
    ),
    "rules": LazyCommand(
        "kbroker.cli.pipeline.rules", "rules", "Watch topics by rules, and write what they find."
    ),
    "lag": LazyCommand(
        "kbroker.cli.pipeline.lag", "lag", "Show how far behind groups and Spark queries are."
    ),
}


@click.group(cls=LazyGroup, commands_by_name=_COMMANDS)
def pipeline() -> None:
    """Jobs over topics and data directories. They need `pip install 'kbroker[spark]'`, and Java 17
    or 21 where they run on Spark.
    """
