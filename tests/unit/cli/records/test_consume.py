"""Ctrl-C is how `consume --follow` ends; without it, not all was printed that was asked for."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from kbroker.cli.records.chosen_records import print_all
from kbroker.cli.records.consume import consume
from kbroker.cli.shown.record_printer import PrintForm, RecordPrinter
from kbroker.cli.shown.value_form import ValueForm
from kbroker.model import TopicPartition
from kbroker.record.default_record import Record


def interrupted() -> Iterator[tuple[TopicPartition, list[Record]]]:
    yield TopicPartition("t", 0), [Record(0, 0, None, b"a", ())]
    raise KeyboardInterrupt


def printer(out: io.BytesIO) -> RecordPrinter:
    form = PrintForm(output="table", text=None, key=ValueForm(None), value=ValueForm(None))
    return RecordPrinter(form, out)


def test_one_that_follows_has_done_its_work() -> None:
    out = io.BytesIO()

    assert not print_all(interrupted(), None, printer(out), follow=True)
    assert out.getvalue() == b"a\n"


def test_one_that_does_not_tells_that_it_was_interrupted() -> None:
    out = io.BytesIO()

    with pytest.raises(KeyboardInterrupt):
        print_all(interrupted(), None, printer(out), follow=False)
    assert out.getvalue() == b"a\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--from", "1"), "give --from as start or end"),
        (("--to", "end"), "--group and --to exclude each other"),
    ],
)
def test_a_member_of_a_group_is_told_which_option_it_cannot_have(
    options: tuple[str, ...], said: str
) -> None:
    result = CliRunner().invoke(consume, ["t", "--group", "g", *options])

    assert result.exit_code == 2
    assert said in result.output
    assert ("--to" in result.output) == ("--to" in options)
