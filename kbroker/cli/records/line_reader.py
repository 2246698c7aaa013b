"""Reads lines as records, and checks the first ones before a topic is created for them."""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.cli.arguments.connection import CommandError, ExitCode
from kbroker.cli.records.line_form import BadLine, LineForm, Part
from kbroker.cli.records.line_source import LineSource
from kbroker.cli.shown.output import counted, say


def lines_to_first_record(source: LineSource, form: LineForm) -> list[bytes]:
    """Wait for a line that is a record, and return the lines read up to there.

    CommandError if a line before it is neither a record nor empty.
    """
    read: list[bytes] = []
    while not source.is_ended:
        lines = source.read()
        if source.begins_too_long:
            raise refused_line(f"line {len(read) + 1}: {_too_long(source)}", 0)
        for number, line in enumerate(lines, len(read) + 1):
            parts, bad = form.place([line], 0)
            if bad:
                raise refused_line(f"line {number}: {bad[0].reason}", 0)
            if parts:
                return read + lines
        read += lines
    return read


def _too_long(source: LineSource) -> str:
    return (
        f"it has more than {source.max_line_bytes >> 20} MiB, which brokers take in no request "
        "(socket.request.max.bytes): is it text, with line feeds?"
    )


def refused_line(refusal: str, records: int) -> CommandError:
    """Return the error for a line that is not a record, after so many that were."""
    written = "no record was written"
    if records:
        verb = "is" if records == 1 else "are"
        written = f"the {counted(records, 'record')} before it {verb} written"
    return CommandError(
        f"{refusal}; {written} (--keep-going skips such lines)", ExitCode.ITEM_FAILED
    )


class LineReader:
    """Reads lines as records; a bad line ends the reading, or is reported and counted."""

    def __init__(
        self, source: LineSource, form: LineForm, held: Sequence[bytes] = (), *, keep_going: bool
    ) -> None:
        """`held`: lines that were already read from the source."""
        self.bad = 0  # lines
        self.is_ended = source.is_ended and not held
        self.refusal: str | None = None  # of the line that ended it
        self._source, self._form, self._keep_going = source, form, keep_going
        self._held = held
        self._lines = 0

    @property
    def holds_lines(self) -> bool:
        """Whether `read` returns lines without waiting."""
        return bool(self._held)

    def unread(self) -> str | None:
        return self._source.unread()

    def fileno(self) -> int:
        return self._source.fileno()

    def read(self, now_ms: int) -> list[Part]:
        """Return the records of the lines that have come since."""
        held, self._held = self._held, ()
        lines = held or self._source.read()
        self.is_ended = self._source.is_ended
        if not held and self._source.begins_too_long:
            parts, bad = self._form.place(lines[1:], now_ms)
            bad = [
                BadLine(0, _too_long(self._source)),
                *(BadLine(at + 1, reason) for at, reason in bad),
            ]
        else:
            parts, bad = self._form.place(lines, now_ms)
        if bad and not self._keep_going:
            first = bad[0]
            self.is_ended = True
            self.refusal = f"line {self._lines + first.at + 1}: {first.reason}"
            parts, _ = self._form.place(lines[: first.at], now_ms)
        elif bad:
            for at, reason in bad:
                say(f"line {self._lines + at + 1}: {reason}")
            self.bad += len(bad)
        self._lines += len(lines)
        return parts
