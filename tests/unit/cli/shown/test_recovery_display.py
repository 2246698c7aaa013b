"""What an operator sees while logs are opened."""

from __future__ import annotations

from io import StringIO

from kbroker.cli.shown.recovery_display import RecoveryDisplay, describe
from kbroker.log.recovery.load_progress import LoadProgress

MIB = 1024 * 1024


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def half_way() -> LoadProgress:
    progress = LoadProgress()
    progress.expect("/data", logs=2, size_bytes=4 * MIB)
    progress.meter("/data")(2 * MIB)
    progress.log_done("/data")
    return progress


def test_nothing_is_said_within_the_first_second() -> None:
    stream = StringIO()
    display = RecoveryDisplay(half_way(), stream, begun_s=10.0)

    display.update(10.9)
    display.end()

    assert stream.getvalue() == ""


def test_a_file_gets_a_line_every_five_seconds() -> None:
    stream = StringIO()
    display = RecoveryDisplay(half_way(), stream, begun_s=10.0)

    for now_s in (12.0, 14.0, 16.9, 17.0):
        display.update(now_s)
    display.end()

    assert stream.getvalue() == (
        "recovering /data: 1 of 2 logs, 2 of 4 MiB, 1 MB/s, 2 s left\n"
        "recovering /data: 1 of 2 logs, 2 of 4 MiB, 0 MB/s, 7 s left\n"
    )


def test_a_terminal_gets_one_line_that_goes_at_the_end() -> None:
    stream = Terminal()
    display = RecoveryDisplay(half_way(), stream, begun_s=10.0)

    display.update(12.0)
    display.end()

    line, *rest = stream.getvalue().split("\r\x1b[K")[1:]
    assert line.startswith("recovering /data: 1 of 2 logs")
    assert rest == [""]


def test_opening_without_recovery_counts_logs() -> None:
    progress = LoadProgress()
    progress.expect("/data", logs=5000, size_bytes=0)

    assert describe(progress.directories["/data"], 2.0) == "opening /data: 0 of 5,000 logs"
