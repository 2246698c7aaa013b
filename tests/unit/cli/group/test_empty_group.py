"""An empty group, as an unset variable in a script gives it, is refused: brokers would make it."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from kbroker.cli.group.reset import reset
from kbroker.cli.records.consume import consume


@pytest.mark.parametrize(
    ("command", "arguments", "name"),
    [
        (reset, ["", "--to", "earliest", "--topic", "orders", "--yes"], "GROUP"),
        (consume, ["orders", "--group", ""], "--group"),
    ],
)
def test_an_empty_group_is_refused_before_a_broker_is_asked(
    command: click.Command, arguments: list[str], name: str
) -> None:
    unreachable = ["--bootstrap", "127.0.0.1:1"]

    result = CliRunner().invoke(command, [*arguments, *unreachable], standalone_mode=False)

    assert isinstance(result.exception, click.UsageError)
    assert result.exception.message == f"{name} is empty: give the name of a group"
