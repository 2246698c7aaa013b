"""What `--dry-run` shows of the options."""

from __future__ import annotations

import click
import pytest

from kbroker.cli.pipeline.job_plan import setting_rows
from kbroker.cli.pipeline.parameters import pair


@click.command()
@click.option("--kafka-option", type=pair, multiple=True)
@click.option("--once", is_flag=True)
@click.option("--name")
def command() -> None:
    """A job."""


def test_a_plan_shows_what_was_given_without_passwords() -> None:
    arguments = [
        "--once",
        *("--kafka-option", "kafka.sasl.mechanism=PLAIN"),
        *("--kafka-option", 'kafka.sasl.jaas.config=x required password="geheim";'),
        *("--kafka-option", "kafka.ssl.key.password=geheim"),
    ]

    rows = setting_rows(command.make_context("job", arguments))

    assert rows == [
        {
            "setting": "kafka-option",
            "value": "kafka.sasl.mechanism=PLAIN,kafka.sasl.jaas.config=(hidden),"
            "kafka.ssl.key.password=(hidden)",
            "origin": "command line",
        },
        {"setting": "once", "value": "true", "origin": "command line"},
    ]


@pytest.mark.parametrize(
    "name",
    [
        "fs.azure.account.key.mine.dfs.core.windows.net",
        "kafka.ssl.keystore.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.ssl.keyPassword",
        "ssl.key.pem",
    ],
)
def test_a_plan_shows_no_keys_of_stores(name: str) -> None:
    (row,) = setting_rows(command.make_context("job", ["--kafka-option", f"{name}=geheim"]))

    assert row["value"] == f"{name}=(hidden)"
