"""Commands are found, completed and hinted at without being imported."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from kbroker.cli.command_line import cli
from kbroker.cli.topic.commands import topic
from kbroker.cli.txn.commands import txn

LISTS_COMMANDS = """
import sys
import click
from kbroker.cli.command_line import cli
context = click.Context(cli)
print(",".join(item.value for item in cli.shell_complete(context, "co")))
print(cli.get_help(context).count("kbroker"))
print(sorted(name for name in sys.modules if name.startswith("kbroker.client.")))
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topc",), "no such command: topc, did you mean topic or top?"),
        (("topic", "delet"), "no such command: delet, did you mean delete?"),
        (("zzz",), "no such command: zzz"),
    ],
)
def test_a_wrong_command_is_refused_with_the_near_ones(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        cli.main(list(words), standalone_mode=False)

    assert refused.value.message == said


def test_a_short_help_is_everywhere() -> None:
    # In a process of its own: a command keeps the help option of whoever asked it first.
    program = (sys.executable, "-m", "kbroker.cli", "topic", "list", "-h")
    done = subprocess.run(program, capture_output=True, text=True, check=True)

    assert done.stdout.startswith("Usage: kbroker topic list")


def test_commands_stand_in_the_order_of_the_alphabet_where_some_are_imported_later() -> None:
    names = topic.list_commands(click.Context(topic))

    assert "copy" in names
    assert names == sorted(names)


@pytest.mark.parametrize("group", [topic, txn])
def test_no_line_of_a_list_of_commands_is_cut(group: click.Group) -> None:
    _, _, lines = group.get_help(click.Context(group)).partition("Commands:")

    assert lines
    assert "..." not in lines


def test_help_and_completion_import_no_command() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTS_COMMANDS], capture_output=True, text=True, check=True
    )

    completed, _, imported = done.stdout.splitlines()
    assert completed == "consume,config,console,completion"
    assert imported == "['kbroker.client.client_error', 'kbroker.client.exit_code']"
