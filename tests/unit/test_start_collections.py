from __future__ import annotations

import gc

import click
import pytest

from kbroker.cli.command_line import cli
from kbroker.start_collections import collecting_rarely, started

USUAL = gc.get_threshold()


def test_a_start_is_looked_at_rarely_until_it_has_started() -> None:
    with collecting_rarely():
        during = gc.get_threshold()
        started()
        after = gc.get_threshold()

    assert during[0] > 50 * USUAL[0]
    assert after == USUAL
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize(("command", "is_rare"), [("start", True), ("version", False)])
def test_commands_but_a_broker_are_looked_at_as_usual_once_they_are_imported(
    command: str, is_rare: bool
) -> None:
    with collecting_rarely():
        assert cli.get_command(click.Context(cli), command) is not None
        assert (gc.get_threshold() != USUAL) == is_rare


def test_a_start_that_fails_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), collecting_rarely():
        raise ZeroDivisionError

    assert gc.get_threshold() == USUAL
