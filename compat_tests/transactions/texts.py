"""An answer as one line of text, in which what differs from run to run is left out or named."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from compat_tests.transactions.actors import Actors
from compat_tests.wire.record_bytes import CONTROL, HEADER_BYTES, TRANSACTIONAL

_LEFT_OUT = frozenset(
    {"throttle_time", "error_message", "host", "port", "node_id", "current_leader"}
    | {"node_endpoints", "leader_epoch", "committed_leader_epoch", "record_errors", "session_id"}
    | {"preferred_read_replica", "metadata"}
    | {"diverging_epoch", "snapshot_id"}
)
_TIMES = frozenset({"timestamp", "last_timestamp", "transaction_start_time"})
_SHORT = {
    "error_code": "", "partition_error_code": "", "partition_index": "", "name": "", "topic": "",
    "transactional_id": "", "group_id": "", "key": "", "producer_epoch": "epoch",
    "high_watermark": "hw", "last_stable_offset": "lso", "log_start_offset": "log_start",
    "results_by_topic_v3_and_below": "", "results_by_partition": "", "topics": "",
    "results_by_transaction": "", "topic_results": "", "partitions": "", "partition_responses": "",
    "responses": "", "markers": "", "results": "", "transaction_states": "", "coordinators": "",
    "aborted_transactions": "aborted", "current_txn_start_offset": "begins",
    "transaction_start_time": "began", "active_producers": "producers", "transaction_state": "state", "groups": "",
}  # fmt: skip
_BATCH = struct.Struct(">qiibIhiqqqhii")
_OUTCOMES = {0: "ABORT", 1: "COMMIT"}


def text_of(actors: Actors, answer: Any) -> str:
    """The whole answer."""
    return actors.name_in_sequence(_text(actors, "", answer)) or "nothing"


def codes(answer: Any) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(answer, Enum):
        yield int(answer.value)
    elif isinstance(answer, tuple):
        for element in answer:
            yield from codes(element)
    elif is_dataclass(answer):
        for each in fields(answer):
            yield from codes(getattr(answer, each.name))


def _text(actors: Actors, name: str, value: Any) -> str:
    if isinstance(value, Enum):
        return "OK" if value.value == 0 else value.name.upper()
    if is_dataclass(value):
        return " ".join(_struct(actors, value))
    if isinstance(value, tuple):
        return "[" + "; ".join(_elements(actors, name, value)) + "]"
    for wanted, show in _KINDS:
        if isinstance(value, wanted):
            return show(value)
    if name.endswith("producer_id"):
        return actors.id_name(value)
    if name == "coordinator_epoch" and value >= 0:
        return "set"
    if name == "records":
        return "[" + "; ".join(batches(actors, value or b"")) + "]"
    return str(value)


_KINDS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (timedelta, lambda value: str(value // timedelta(milliseconds=1))),
    (datetime, lambda _: "set"),
)


def _struct(actors: Actors, value: Any) -> Iterator[str]:
    if getattr(value, "topic", None) == "__consumer_offsets":
        yield "offsets"  # in which partition follows from the name of the group
        return
    for each in fields(value):
        held = getattr(value, each.name)
        if each.name in _LEFT_OUT:
            continue
        if each.name in _TIMES:
            held = "set" if held > 0 else held
        label = _SHORT.get(each.name, each.name)
        text = _text(actors, each.name, held)
        yield f"{label}={text}" if label else text


def _elements(actors: Actors, name: str, value: tuple[Any, ...]) -> list[str]:
    """Sorted, because no order is promised; of a list of all transactions, those of the sequence."""
    if name == "transaction_states":
        value = tuple(
            each for each in value
            if hasattr(each, "error_code") or each.transactional_id.startswith(actors.prefix)
        )  # fmt: skip
    return sorted(_text(actors, "", element) for element in value)


def batches(actors: Actors, records: bytes) -> Iterator[str]:
    """`first-last producer epoch sequence` of each batch, or the outcome that a marker tells."""
    at = 0
    while len(records) - at >= HEADER_BYTES:
        base, length, _, _, _, attributes, last, _, _, producer_id, epoch, sequence, _ = (
            _BATCH.unpack_from(records, at)
        )
        who = f"{actors.id_name(producer_id)} epoch={epoch}"
        if attributes & CONTROL:
            (kind,) = struct.unpack_from(
                ">h", records, _control_key(records, at + HEADER_BYTES) + 2
            )
            yield f"{base} {_OUTCOMES.get(kind, kind)} {who}"
        else:
            kept = " transactional" if attributes & TRANSACTIONAL else ""
            yield f"{base}-{base + last} {who} sequence={sequence}{kept}"
        at += 12 + length


def _control_key(records: bytes, at: int) -> int:
    """Where the key of the one record begins: after length, attributes, two deltas, its own length."""
    at = _after_varint(records, at) + 1
    for _ in range(3):
        at = _after_varint(records, at)
    return at


def _after_varint(records: bytes, at: int) -> int:
    while records[at] & 0x80:
        at += 1
    return at + 1
