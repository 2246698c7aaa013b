"""Turns lines of standard input into records: values, keys with values, or rows of JSON.

Law: the bytes of a line are not changed. A bad line is returned with its reason beside the records
of the good ones, because the caller decides whether to go on. No clock, no socket.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple, Protocol

from kbroker.client.partitioner import partition_of, partitions_of
from kbroker.decoding.record_rows import bytes_of
from kbroker.near_names import did_you_mean
from kbroker.record.bulk_records import bodies_of_pairs, bodies_of_values, whole_body_of
from kbroker.record.default_record import Headers, Record

_ESCAPED = {rb"\t": b"\t", rb"\r": b"\r", rb"\0": b"\0", rb"\\": b"\\"}
_ESCAPE = re.compile(rb"\\(?:[tr0\\]|x([0-9a-fA-F]{2}))")
_ROW_FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")
_MIN_TIME, _MAX_TIME = -(1 << 63), (1 << 63) - 1  # of an int64


class Part(NamedTuple):
    """Bodies of records for a partition; `times` (Unix ms) of each, if they have their own."""

    partition: int
    bodies: list[bytes]
    times: Sequence[int] = ()


class BadLine(NamedTuple):
    """A line that is not a record."""

    at: int  # among the lines given
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChoice:
    """Chooses partitions: `only`, else by key, else the one whose turn it is."""

    count: int  # of partitions
    only: int | None
    in_turn: Callable[[], int]

    def of_key(self, key: bytes | None) -> int:
        """Return the partition of one key."""
        if self.only is not None:
            return self.only
        return self.in_turn() if key is None else partition_of(key, self.count)


class LineForm(Protocol):
    """Turns lines into records, many at a time."""

    def place(self, lines: Sequence[bytes], now_ms: int) -> tuple[list[Part], list[BadLine]]:
        """Return the records of the lines in their order, and the lines that are none."""


class ValueLines:
    """Each line is a value; one key for all, or none."""

    def __init__(self, spread: PartitionChoice, key: bytes | None, *, has_nulls: bool) -> None:
        """`has_nulls`: an empty value is null."""
        self._spread, self._key, self._has_nulls = spread, key, has_nulls

    def place(self, lines: Sequence[bytes], now_ms: int) -> tuple[list[Part], list[BadLine]]:
        """Place lines, each of which is a record."""
        values = [line or None for line in lines] if self._has_nulls else lines
        bodies = bodies_of_values(values, self._key)
        return [Part(self._spread.of_key(self._key), bodies)] if bodies else [], []


def unescaped(separator: bytes) -> bytes:
    """Replace the escapes in a separator by their bytes, because shells pass a tab in different
    ways, if at all.
    """
    return _ESCAPE.sub(
        lambda found: _ESCAPED.get(found[0]) or bytes.fromhex(found[1].decode()), separator
    )


class KeyedLines:
    """Each line is a key, a separator and a value."""

    def __init__(self, spread: PartitionChoice, separator: bytes, *, has_nulls: bool) -> None:
        """`has_nulls`: an empty value is null."""
        self._spread, self._separator, self._has_nulls = spread, separator, has_nulls

    def place(self, lines: Sequence[bytes], now_ms: int) -> tuple[list[Part], list[BadLine]]:
        """Place lines; a line without a separator is not a record."""
        separator = self._separator
        bad: list[BadLine] = []
        fields = [line.partition(separator) for line in lines]
        keys, found, values = zip(*fields, strict=True) if fields else ((), (), ())
        if not all(found):
            reason = f"it has no key separator '{separator.decode('utf-8', 'replace')}'"
            bad = [BadLine(n, reason) for n, is_found in enumerate(found) if not is_found]
            keys = tuple(compress(keys, found))
            values = tuple(compress(values, found))
        if not keys:
            return [], bad
        bodies = bodies_of_pairs(
            keys, [value or None for value in values] if self._has_nulls else values
        )
        spread = self._spread
        if spread.only is not None:
            return [Part(spread.only, bodies)], bad
        placed: defaultdict[int, list[bytes]] = defaultdict(list)
        for partition, body in zip(partitions_of(keys, spread.count), bodies, strict=True):
            placed[partition].append(body)
        return [Part(*item) for item in placed.items()], bad


class JsonLines:
    """Each line is a row as `kbroker consume --output jsonl` prints it, or with some fields of it.

    A row keeps its partition and time, if it has them, but not its topic and offset.
    """

    def __init__(self, spread: PartitionChoice) -> None:
        """`only` of the spread is the partition for rows without one."""
        self._spread = spread

    def place(self, lines: Sequence[bytes], now_ms: int) -> tuple[list[Part], list[BadLine]]:
        """Place lines that are rows in JSON."""
        bad: list[BadLine] = []
        bodies: defaultdict[int, list[bytes]] = defaultdict(list)
        times: defaultdict[int, list[int]] = defaultdict(list)
        unkeyed = self._spread.of_key(None)
        for index, line in enumerate(lines):
            if not line or line.isspace():
                continue
            try:
                row = _row(line)
                record = _record(row, now_ms)
                partition = self._partition(row, record.key, unkeyed)
                body = whole_body_of(record)
            except ValueError as error:
                bad.append(BadLine(index, str(error)))
                continue
            bodies[partition].append(body)
            times[partition].append(record.timestamp)
        return [Part(number, found, times[number]) for number, found in bodies.items()], bad

    def _partition(self, row: Mapping[str, Any], key: bytes | None, unkeyed: int) -> int:
        number = row.get("partition")
        if number is None:
            return unkeyed if key is None else self._spread.of_key(key)
        if type(number) is not int:
            raise ValueError(f"its partition is {json.dumps(number)}, not a number")
        if not 0 <= number < self._spread.count:
            there = f", the topic has {self._spread.count}" if number > 0 else ""
            raise ValueError(
                f'there is no partition {number}{there} (a row without "partition" goes by its key)'
            )
        return number


def _row(line: bytes) -> Mapping[str, Any]:
    try:
        row = _parse(line.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON at column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("its JSON is nested too deeply") from error
    if not isinstance(row, dict):
        raise ValueError('it is not a JSON object such as {"key": "k", "value": "v"}')
    if not row.keys() <= _KNOWN:
        raise ValueError(_unknown(next(name for name in row if name not in _KNOWN)))
    if "value" not in row:
        raise ValueError('it has no "value" (null for a tombstone)')
    return row


_KNOWN = frozenset(_ROW_FIELDS)
_parse = json.JSONDecoder().decode


def _unknown(name: str) -> str:
    hint = did_you_mean(name, _ROW_FIELDS) or f", there are: {', '.join(_ROW_FIELDS)}"
    return f"there is no field {json.dumps(name)}{hint}"


def _record(row: Mapping[str, Any], now_ms: int) -> Record:
    time_ms = row.get("timestamp_ms")
    if time_ms is None:
        time_ms = now_ms
    elif type(time_ms) is not int or not _MIN_TIME <= time_ms <= _MAX_TIME:
        raise ValueError(f"its timestamp_ms is {json.dumps(time_ms)}, not a number of milliseconds")
    headers = row.get("headers")
    return Record(
        0,
        time_ms,
        _field("key", row.get("key")),
        _field("value", row["value"]),
        _headers(headers) if headers else (),
    )


def _field(name: str, value: Any) -> bytes | None:
    if type(value) is str:
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"its {name} has half a character at {error.start + 1}") from error
    try:
        return bytes_of(value)
    except ValueError as error:
        hint = "; JSON goes as text, in quotes" if isinstance(value, dict | list | int) else ""
        raise ValueError(f"its {name} cannot be written: {error}{hint}") from error


def _headers(headers: Any) -> Headers:
    pairs = headers.items() if isinstance(headers, dict) else headers
    try:
        found = [(name, value) for name, value in pairs]
    except (TypeError, ValueError):
        raise ValueError('its headers are not pairs such as [["name", "value"]]') from None
    for name, _ in found:
        if not isinstance(name, str):
            raise ValueError(f"the name of a header is {json.dumps(name)}, not text")
    return tuple((name, _field(f"header {name}", value)) for name, value in found)
