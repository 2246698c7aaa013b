"""Values as JSON, in the form that `schemas` describes. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from kbroker.http.answers import JSON, Answer, json_bytes


def api_answer(value: Any, status: int = 200) -> Answer:
    """Return a value as an answer of JSON."""
    body = json_bytes(plain(value)) + b"\n"
    return Answer(status=status, body=body, content_type=JSON)


def api_error(status: int, sentence: str) -> Answer:
    """Return an error as an answer of JSON."""
    return api_answer({"error": sentence}, status)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: objects for dataclasses and named tuples, lists for other
    sequences and sets, base64 for bytes.
    """
    if value is None or isinstance(value, bool | int | float):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(each) for name, each in zip(value._fields, value, strict=True)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, UUID):
        return str(value)
    return [plain(each) for each in (sorted(value) if isinstance(value, frozenset) else value)]
