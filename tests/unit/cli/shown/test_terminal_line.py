"""A line that is written over on a terminal, and written again now and then elsewhere."""

from __future__ import annotations

from io import StringIO

from kbroker.cli.shown.terminal_line import TerminalLine


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_in_place_of_the_one_before() -> None:
    stream = Terminal()
    line = TerminalLine(stream, first_s=10.0, plain_interval_s=5.0)

    due = [line.is_due(9.9), line.is_due(10.0)]
    line.show("one", 10.0)
    due += [line.is_due(10.1), line.is_due(10.2)]
    line.show("two", 10.2)
    line.end()

    assert due == [False, True, False, True]
    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"


def test_a_file_gets_lines_at_longer_intervals() -> None:
    stream = StringIO()
    line = TerminalLine(stream, first_s=10.0, plain_interval_s=5.0)

    line.show("one", 10.0)
    due = [line.is_due(14.9), line.is_due(15.0)]
    line.show("two", 15.0)
    line.end()

    assert due == [False, True]
    assert stream.getvalue() == "one\ntwo\n"


def test_a_file_gets_nothing_where_the_line_is_for_terminals_alone() -> None:
    line = TerminalLine(StringIO(), first_s=0.0, plain_interval_s=None)

    assert not line.is_due(1e9)


def test_a_line_that_was_never_shown_is_not_taken_away() -> None:
    stream = Terminal()

    TerminalLine(stream, first_s=0.0, plain_interval_s=None).end()

    assert stream.getvalue() == ""
