"""Messages that a person writes: entered as text, JSON, a number or binary digits, and written with
the acknowledgement of all replicas in sync.

Law: null (a tombstone) and empty are different, and never mistaken for each other. A message is
written once: what is not known to be written is reported as such.
"""

from __future__ import annotations

import base64
import binascii
import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.client.partitioner import partition_of
from kbroker.client.record_sender import RecordSender, SendOptions
from kbroker.client.wall_clock import unix_now_ms
from kbroker.console.consoled_cluster import ConsoledCluster, Work
from kbroker.console.topic_lookup import check_partitions, topic_named
from kbroker.model import TopicPartition
from kbroker.near_names import did_you_mean
from kbroker.record.bulk_records import whole_body_of
from kbroker.record.default_record import Headers, Record

_PATIENCE_S = 10.0
_MAX_TIME_MS = 253_402_300_799_999  # the end of the year 9999
_SPACE = re.compile(r"\s+")
NULL: Final = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message to be written. Without `partition` it goes by its key, or without one to any;
    without `timestamp_ms` (Unix time) it gets the time of now.
    """

    topic: str
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """The place of a message that was written; `offset` is None if its broker does not say it."""

    place: TopicPartition
    offset: int | None


def entered(text: str, form: str) -> bytes | None:
    """Return the bytes of a key or a value that a person entered in one of `FORMS`.

    Raises ValueError with a sentence.
    """
    if form not in FORMS:
        raise ValueError(f"'{form}' is none of {', '.join(FORMS)}{did_you_mean(form, FORMS)}")
    read = FORMS[form]
    return None if read is None else read(text)


def _of_text(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it has half a character at {error.start + 1}") from error


def _of_json(text: str) -> bytes:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"it is not JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    return _of_text(text)


def _of_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise ValueError("it is not in hexadecimal digits, two for each byte") from error


def _of_base64(text: str) -> bytes:
    try:
        return base64.b64decode(_SPACE.sub("", text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"it is not base64: {error}") from error


def _of_int(size_bytes: int) -> Callable[[str], bytes]:
    def read(text: str) -> bytes:
        try:
            return int(text).to_bytes(size_bytes, "big", signed=True)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"it is not a whole number of {size_bytes} bytes") from error

    return read


FORMS: Final[Mapping[str, Callable[[str], bytes] | None]] = {
    "text": _of_text,
    "json": _of_json,
    "hex": _of_hex,
    "base64": _of_base64,
    "int32": _of_int(4),
    "int64": _of_int(8),
    NULL: None,
}
"""Forms that a person may enter; null is a tombstone as a value, and no key as a key."""


async def produce(cluster: ConsoledCluster, new: NewMessage) -> Produced:
    """Write one message, and return its place.

    Raises NotFoundError if there is no such topic or partition, ClientError if it was refused, or
    if it is not known whether it was written.
    """
    if new.timestamp_ms is not None and not 0 <= new.timestamp_ms <= _MAX_TIME_MS:
        raise ClientError(
            f"{new.timestamp_ms} is not a time in milliseconds since 1970", ExitCode.USAGE
        )
    return await cluster.ask(lambda work: _produce(work, new), 2 * _PATIENCE_S)


def _produce(work: Work, new: NewMessage) -> Produced:
    links = work.links
    topic = topic_named(links, new.topic)
    count = len(topic.partitions)
    check_partitions(topic, () if new.partition is None else (new.partition,))
    partition = _partition(new, count)
    now_ms = unix_now_ms()
    record = Record(
        0,
        now_ms if new.timestamp_ms is None else new.timestamp_ms,
        new.key,
        new.value,
        _headers(new.headers),
    )
    offsets: list[int] = []
    sender = _sender(links, new.topic, offsets)
    sender.put(partition, [whole_body_of(record)], record.timestamp, [record.timestamp])
    sender.complete(record.timestamp)
    try:
        sender.send_until(lambda: sender.is_idle, work.check)
    except ClientError as error:
        if sender.uncertain:
            raise ClientError(
                f"it is not known whether the message was written: {error.sentence}",
                error.code,
                error.trouble,
            ) from error
        raise
    if sender.refusal is not None:
        raise ClientError(f"{new.topic}: {sender.refusal}")
    place = TopicPartition(new.topic, partition)
    return Produced(place, offsets[0] if offsets and offsets[0] >= 0 else None)


def _sender(links: ClusterLinks, topic: str, offsets: list[int]) -> RecordSender:
    def note(_partition: int, _records: int, offset: int) -> None:
        offsets.append(offset)

    options = SendOptions(headers=None, patience_s=_PATIENCE_S, on_written=note)
    return RecordSender(links, links.topic(topic), options)


def _partition(new: NewMessage, count: int) -> int:
    if new.partition is not None:
        return new.partition
    return random.randrange(count) if new.key is None else partition_of(new.key, count)


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    return tuple((name, value) for name, value in headers)
