"""`kbroker log`: looks into data directories of kbroker and of Apache Kafka, also when no broker
runs.

Law: these commands only read. They take no lock and write no byte, so a broker may be running.
"""

from __future__ import annotations

import click

from kbroker.cli.lazy_commands import CommandGroup
from kbroker.cli.log.dump import dump
from kbroker.cli.log.stats import stats
from kbroker.cli.log.verify import verify


@click.group(cls=CommandGroup)
def log() -> None:
    """Look into data directories, also when no broker runs. Nothing is changed."""


log.add_command(dump)
log.add_command(verify)
log.add_command(stats)
