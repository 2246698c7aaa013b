"""An empty directory, as an unset variable in a script gives it, is no place to work in."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kbroker.cli.cluster.copy import export_tree, import_tree
from kbroker.cli.log.dump import dump
from kbroker.cli.log.stats import stats
from kbroker.cli.log.verify import verify
from kbroker.cli.pipeline.archive import archive
from kbroker.cli.pipeline.audit import audit
from kbroker.cli.pipeline.mirror import mirror
from kbroker.cli.pipeline.restore import restore
from kbroker.cli.usage_errors import sentence_of_usage

COPY = ["--zookeeper", "127.0.0.1:1/k", "--data"]
MIRROR = ["--from", "127.0.0.1:1", "--bootstrap", "127.0.0.1:2", "--topics", "t", "--once"]
RESTORE = ["--data", "there", "--checkpoint", "c", "--archive"]


@pytest.mark.parametrize(
    ("command", "arguments", "option"),
    [
        (export_tree, COPY, "--data"),
        (import_tree, COPY, "--data"),
        (mirror, [*MIRROR, "--checkpoint"], "--checkpoint"),
        (restore, [*RESTORE[:2], "--archive", "a", "--checkpoint"], "--checkpoint"),
        (restore, RESTORE, "--archive"),
        (restore, ["--archive", "a", "--checkpoint", "c", "--data"], "--data"),
        (audit, ["--archive"], "--archive"),
        (audit, ["--data", "there", "--data"], "--data"),
        (archive, ["--topics", "t", "--to", "there", "--checkpoint", "c", "--data"], "--data"),
        (verify, [], "DIR..."),
        (stats, ["there"], "DIR..."),
        (dump, [], "PATH..."),
    ],
)
@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_directory_is_refused(
    command: click.Command, arguments: list[str], option: str, name: str
) -> None:
    result = CliRunner().invoke(command, [*arguments, name], standalone_mode=False)

    assert isinstance(result.exception, click.UsageError)
    assert sentence_of_usage(result.exception) == f"{option} '{name}' is empty: give a directory"
