"""A line that comes again and again is counted."""

from __future__ import annotations

import io
import logging

import pytest

from kbroker.cli.broker.log_format import JsonFormatter
from kbroker.cli.broker.log_handler import COUNTED_FOR_S, CountingHandler


class Log:
    def __init__(self, formatter: logging.Formatter | None = None) -> None:
        self.stream = io.StringIO()
        self.handler = CountingHandler(self.stream)
        self.handler.setFormatter(formatter)
        self.now_s = 1_000.0

    def write(self, text: str, *args: object, level: int = logging.INFO) -> None:
        record = logging.LogRecord("kbroker", level, "f", 1, text, args, None)
        record.created = self.now_s
        self.handler.handle(record)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


def test_the_next_line_is_preceded_by_the_count() -> None:
    log = Log()
    for number in (1, 1, 1, 2):
        log.write("disk %d is slow", number)

    assert log.lines == [
        "disk 1 is slow",
        "the line before came 2 more times",
        "disk 2 is slow",
    ]


def test_lines_in_turn_and_of_other_levels_are_all_written() -> None:
    log = Log()
    log.write("a")
    log.write("b")
    log.write("a")
    log.write("a", level=logging.WARNING)

    assert log.lines == ["a", "b", "a", "a"]


def test_a_line_that_goes_on_is_written_once_a_minute() -> None:
    log = Log()
    for _ in range(3):
        log.write("a")
        log.now_s += COUNTED_FOR_S / 2

    assert log.lines == ["a", "the line before came 1 more times", "a"]


def test_the_end_of_the_log_has_the_count_that_is_left() -> None:
    log = Log(JsonFormatter())
    log.write("a")
    log.write("a")

    log.handler.close()

    assert '"event": "line_repeated", "count": 1' in log.lines[1]


def test_a_line_that_does_not_fit_its_values_ends_nobody(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = Log()
    log.write("%d", "no number")
    log.write("a")

    assert log.lines == ["a"]
    assert "no number" in capsys.readouterr().err
