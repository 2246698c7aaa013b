"""The line protocol for client programs in Python: a request in JSON a line, an answer a line.

`{"do": "write", "topic": ...}` calls the adapter's method `write`; the answer is `{"ok": VALUE}` or
`{"error": TEXT, "code": KAFKA'S ERROR CODE OR NULL}`. Bytes travel in Base64.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

PATIENCE_S = 90.0  # less than the runner's, so that the program says what it waited for


@dataclass(frozen=True)
class Record:
    """A record as clients see it; `timestamp` in ms, None where the client has none."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    offset: int | None = None


class BrokerError(Exception):
    """An error that the broker answered, with its code in Kafka's protocol."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Adapter(Protocol):
    """A client's calls by the names of the protocol; not all clients have all of them."""

    def hello(self) -> dict[str, str]:
        """The client's version."""

    def code(self, error: Exception) -> int | None:
        """Kafka's code of an error that the client raised."""


A = TypeVar("A", bound=Adapter)


def serve(adapter_for: Callable[[str], A]) -> A:
    """Answer requests with an adapter for the broker on the command line until there are no more.
    What libraries print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    adapter = adapter_for(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        answers.write(json.dumps(_answered(adapter, request)) + "\n")
        answers.flush()
    return adapter


def _answered(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    method: Callable[..., Any] = getattr(adapter, request.pop("do"))
    if "records" in request:
        request["records"] = [from_json(each) for each in request["records"]]
    try:
        return {"ok": method(**request)}
    except Exception as error:
        code = error.code if isinstance(error, BrokerError) else adapter.code(error)
        return {"error": f"{type(error).__name__}: {error}", "code": code}


def from_json(fields: dict[str, Any]) -> Record:
    """The record of a request or an answer."""
    return Record(
        partition=fields["partition"],
        key=_bytes(fields["key"]),
        value=_bytes(fields["value"]),
        headers=tuple((name, _bytes(value)) for name, value in fields["headers"]),
        timestamp=fields["timestamp"],
        offset=fields.get("offset"),
    )


def to_json(record: Record) -> dict[str, Any]:
    """A record for a request or an answer."""
    return {
        "partition": record.partition,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers],
        "timestamp": record.timestamp,
        "offset": record.offset,
    }


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
