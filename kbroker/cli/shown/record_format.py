r"""`--format`: prints records by a text with verbs, those of kcat.

    %t topic    %k key        %K its length, -1 for null    %T time in ms
    %p partition  %s, %v value  %S its length, -1 for null    %d time as a date
    %o offset   %h headers as name=value,...                %% a percent sign

Escapes are \n, \r, \t, \0, \e, \\ and \xHH.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import click

from kbroker.cli.shown.value_form import ValueForm
from kbroker.record.default_record import Headers, Record

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "e": b"\x1b", "\\": b"\\"}
_PIECE = re.compile(
    r"%(?P<verb>.)|\\x(?P<hex>[0-9a-fA-F]{2})|\\(?P<escape>.)|(?P<text>[^%\\]+)", re.DOTALL
)
_FINE = "%t %p %o %k %v %s %h %T %d %K %S %%"

Column = Callable[[Sequence[Record]], Iterable[bytes]]


class RecordFormat:
    """Turns records of a partition into bytes, a verb at a time for all of them."""

    def __init__(self, text: str, key: ValueForm, value: ValueForm) -> None:
        """Raises UsageError for an unknown verb."""
        columns: dict[str, Column] = {
            "k": lambda records: [key.text(record.key) for record in records],
            "K": lambda records: [_length(record.key) for record in records],
            "v": lambda records: [value.text(record.value) for record in records],
            "S": lambda records: [_length(record.value) for record in records],
            "o": lambda records: [b"%d" % record.offset for record in records],
            "T": lambda records: [b"%d" % record.timestamp for record in records],
            "d": lambda records: [_date(record.timestamp) for record in records],
            "h": lambda records: [_headers(record.headers) for record in records],
        }
        columns["s"] = columns["v"]
        self._template: list[str | bytes] = []  # constant pieces, and verbs of topic and partition
        self._columns: list[Column] = []
        for piece in _pieces(text):
            if isinstance(piece, str) and piece in columns:
                self._columns.append(columns[piece])
                self._template.append(b"%b")
            else:
                self._template.append(piece)

    def lines(self, topic: str, partition: int, records: Sequence[Record]) -> bytes:
        """Return all the records, one after the other."""
        fixed = {"t": topic.encode(), "p": b"%d" % partition}
        template = b"".join(
            fixed[piece].replace(b"%", b"%%") if isinstance(piece, str) else piece
            for piece in self._template
        )
        if not self._columns:
            return template.replace(b"%%", b"%") * len(records)
        columns = [column(records) for column in self._columns]
        return b"".join([template % row for row in zip(*columns, strict=True)])


def _pieces(text: str) -> list[str | bytes]:
    """Split a format: verbs as text, and the pieces between them as bytes of a template."""
    pieces: list[str | bytes] = []
    at = 0
    for match in _PIECE.finditer(text):
        if match.start() != at:
            break
        at = match.end()
        verb, code, escape = match["verb"], match["hex"], match["escape"]
        if verb == "%":
            pieces.append(b"%%")
        elif verb:
            if f"%{verb}" not in _FINE.split():
                raise click.UsageError(f"--format: there is no %{verb}, there are: {_FINE}")
            pieces.append(verb)
        elif code:
            pieces.append(bytes.fromhex(code).replace(b"%", b"%%"))
        elif escape:
            if escape not in _ESCAPES:
                raise click.UsageError(
                    f"--format: there is no \\{escape}, there are: \\n \\r \\t \\0 \\e \\\\ \\xHH"
                )
            pieces.append(_ESCAPES[escape])
        else:
            pieces.append(match["text"].encode())
    if at != len(text):
        raise click.UsageError(f"--format: what does '{text[at:]}' at its end mean? (%% is one %)")
    return pieces


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _date(timestamp_ms: int) -> bytes:
    """Return `2026-11-21T10:00:00.000Z`; empty if there is no time, or no date for it."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return b""
    if timestamp_ms < 0:
        return b""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z").encode()


def _headers(headers: Headers) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (value or b"") for name, value in headers
    )
