"""`kbroker consume`: prints the records of topics, between two places or for as long as it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kbroker.cli.arguments.completion import topic_names
from kbroker.cli.arguments.connection import CommandError, ExitCode, bootstrap_option
from kbroker.cli.arguments.topic_choice import compiled, partitions_option
from kbroker.cli.records.chosen_records import COMMITTED, Choice, print_chosen
from kbroker.cli.records.record_place import PLACE_METAVAR, parse_place
from kbroker.cli.shown.output import counted
from kbroker.cli.shown.record_printer import PrintForm, RecordPrinter
from kbroker.cli.shown.value_form import ValueForm
from kbroker.decoding.value_decoders import DECODERS


@click.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=topic_names)
@click.option("--pattern", metavar="REGEX", help="Also all topics whose whole name matches.")
@click.option(
    "--from",
    "start",
    default="start",
    show_default=True,
    metavar=PLACE_METAVAR,
    help="Where to begin; -100: with the last 100 records of each partition. With --group, if "
    "it has no offset: start or end.",
)
@click.option(
    "--to",
    "end",
    metavar=PLACE_METAVAR,
    help="Where to stop: before this offset or time (default: the end as it is now).",
)
@click.option("--count", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--follow", is_flag=True, help="Keep waiting for new records.")
@partitions_option()
@click.option(
    "--isolation",
    type=click.Choice([COMMITTED, "read_uncommitted"]),
    default=COMMITTED,
    show_default=True,
    help="read_committed leaves out records of transactions that are open or aborted.",
)
@click.option(
    "--group",
    help="Join this consumer group, begin at its offsets and commit them: at the end, and with "
    "--follow every 5 s too.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json", "jsonl", "csv"]),
    help="table (the default) prints values only; the others print key, value, headers, timestamp "
    "and place. `kbroker produce --input jsonl` reads jsonl.",
)
@click.option(
    "--format",
    "text",
    metavar="TEXT",
    help="Print each record like this: %t topic, %p partition, %o offset, %k key, %v or %s value, "
    "%h headers, %T time in ms, %d time as a date, %K and %S size of key and value (-1: null), "
    "%% a percent sign; \\n, \\t, \\xHH as in C. Example: '%o %k=%v\\n'.",
)
@click.option("--key-decoder", metavar=DECODERS, help="What keys are.")
@click.option(
    "--value-decoder",
    metavar=DECODERS,
    help="What values are (default: text if they are UTF-8).",
)
@bootstrap_option
def consume(  # one parameter per option
    bootstrap: str,
    names: Sequence[str],
    pattern: str | None,
    start: str,
    end: str | None,
    count: int | None,
    follow: bool,
    numbers: Sequence[int],
    isolation: str,
    group: str | None,
    output: str | None,
    text: str | None,
    key_decoder: str | None,
    value_decoder: str | None,
) -> None:
    """Print the records of each TOPIC; without --follow, up to the end as it is now."""
    if output is not None and text is not None:
        raise click.UsageError("--format and --output exclude each other")
    choice = Choice(
        names=names,
        pattern=None if pattern is None else compiled(pattern),
        partitions=numbers,
        start=parse_place("--from", start),
        end=None if end is None else parse_place("--to", end),
        follow=follow,
        isolation=isolation,
        group=group,
    )
    choice.check()
    form = PrintForm(
        output=output or "table",
        text=text,
        key=ValueForm(key_decoder),
        value=ValueForm(value_decoder, pretty=sys.stdout.isatty()),
    )
    printer = RecordPrinter(form, sys.stdout.buffer)
    unreadable = print_chosen(bootstrap, choice, count, printer)
    if printer.failures:
        raise CommandError(_failed_decoding(printer), ExitCode.ITEM_FAILED)
    unreadable.refuse_if_any()


def _failed_decoding(printer: RecordPrinter) -> str:
    if printer.failures == 1:
        return f"1 field could not be decoded and is printed as it is: {printer.first_failure}"
    return (
        f"{counted(printer.failures, 'field')} could not be decoded and are printed as they are; "
        f"the first is {printer.first_failure}"
    )
