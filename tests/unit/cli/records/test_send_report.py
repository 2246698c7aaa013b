"""What is said of records that were on their way when a sender gave up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.records.send_report import SendReport
from kbroker.client.client_error import ClientError
from kbroker.client.record_sender import RecordSender


def report(acknowledged: int, uncertain: int) -> SendReport:
    """Of 5 records."""
    sender = SimpleNamespace(acknowledged=acknowledged, uncertain=uncertain, refusal=None)
    made = SendReport(cast("RecordSender", sender), "t")
    made.read = 5
    return made


@pytest.mark.parametrize(
    ("acknowledged", "uncertain", "said"),
    [
        (3, 0, "2 of 5 records were not written: no answer"),
        (4, 0, "1 of 5 records was not written: no answer"),
        (3, 2, "2 of 5 records may or may not be written: no answer"),
        (2, 2, "1 of 5 records was not written, 2 may or may not be written: no answer"),
    ],
)
def test_a_failure_tells_what_is_not_written_from_what_nobody_knows(
    acknowledged: int, uncertain: int, said: str
) -> None:
    with pytest.raises(CommandError) as failure, report(acknowledged, uncertain).watched():
        raise ClientError("no answer")

    assert failure.value.message == said


def test_a_failure_tells_what_was_not_read() -> None:
    unread = "20 bytes of the input were not read"
    with pytest.raises(CommandError) as failure, report(3, 0).watched(lambda: unread):
        raise ClientError("no answer")

    assert failure.value.message == f"2 of 5 records were not written, and {unread}: no answer"


@pytest.mark.parametrize(("uncertain", "more"), [(0, ""), (2, ", others may or may not be")])
def test_an_interrupt_tells_it_too(
    uncertain: int, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt), report(3, uncertain).watched():
        raise KeyboardInterrupt

    assert capsys.readouterr().err == f"interrupted: 3 of 5 records written to t{more}\n"
