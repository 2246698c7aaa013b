"""`kbroker help`: what an error means and what to do, from the page that comes with the package."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.help_page import HelpTopic, help_topics, topics_about
from kbroker.near_names import did_you_mean

_PAGE = "troubleshooting.md"
_PACKAGE = Path(__file__).parents[1]
# In a wheel it is beside this file, in a checkout among the other pages.
_PLACES = (Path(__file__).with_name(_PAGE), _PACKAGE.parent / "docs" / _PAGE)
_WIDEST = 100


def topics() -> dict[str, HelpTopic]:
    """Return all topics by name; CommandError if the page is missing."""
    for place in _PLACES:
        if place.is_file():
            return help_topics(place.read_text(encoding="utf-8"))
    raise CommandError(f"{_PLACES[0]} is missing: install kbroker again")


def _topic_names(
    _ctx: click.Context, _of: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    return [
        CompletionItem(name, help=topic.line)
        for name, topic in topics().items()
        if name.startswith(incomplete)
    ]


@click.command("help")
@click.argument("words", metavar="[NAME]", nargs=-1, shell_complete=_topic_names)
@click.pass_context
def help_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Say what an error means and what to do: NAME is in the line below the error.

    Without NAME, list all names. The words of a command print its options, others the names and
    sentences that have them.
    """
    known = topics()
    if not words:
        _print_list(ctx, list(known.values()))
        return
    name = "-".join(words).lower()
    root = ctx.find_root().command
    assert isinstance(root, click.Group)
    if name in known:
        _print_topic(ctx, known[name])
    elif words[0] in (commands := root.list_commands(ctx)):
        root.main([*words, "--help"], prog_name="kbroker", standalone_mode=False)
    elif found := topics_about(list(known.values()), words):
        if len(found) == 1:
            _print_topic(ctx, found[0])
        else:
            _print_list(ctx, found)
    else:
        hint = did_you_mean(name, [*known, *commands]) or ": `kbroker help` lists the names"
        raise CommandError(f"no help on {' '.join(words)}{hint}", ExitCode.USAGE)


def _print_topic(ctx: click.Context, topic: HelpTopic) -> None:
    for line in topic.lines(min(_WIDEST, ctx.make_formatter().width)):
        click.echo(line)


def _print_list(ctx: click.Context, found: Sequence[HelpTopic]) -> None:
    formatter = ctx.make_formatter()
    for part, of_part in groupby(found, key=lambda topic: topic.part):
        with formatter.section(part):
            formatter.write_dl([(topic.name, topic.line) for topic in of_part])
    click.echo(formatter.getvalue().strip("\n"))
    click.echo("\n`kbroker help NAME` says more, `kbroker --help` lists the commands", err=True)
