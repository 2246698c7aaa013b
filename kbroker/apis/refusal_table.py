"""The refusals in an answer that a person would look for in the log, and what decided them.

Pure. Law: a table. The log has every code except those that ordinary clients get all day long and
handle: of leaders and coordinators that move, groups that rebalance, sessions and offsets that
start again, and what another line of the log says already. Entries are found by the declarations of
messages, so that refusals of a new API are logged without a word here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from kbroker.errors import ErrorCode
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.declaration import Struct, field_specs
from kbroker.protocol.error_response import CODE_FIELDS
from kbroker.protocol.part_encoder import EncodedRun
from kbroker.wording import unnamed_topic

LOOKED_AT_MAX = 1_000  # entries of an answer: a tenth of a millisecond
_FEW = 32  # entries of an array, as nearly every answer has

_ORDINARY = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_SERVER_ERROR,  # a bug, which is logged with its place
        ErrorCode.UNSUPPORTED_VERSION,  # the client is named with what it asked for
        # Leaders move, or are about to be there.
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,  # the directory is named
        # Groups and transactions go their way.
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,  # sent again, and stored already
        # Sessions and positions start again.
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        # Asked to find out, and answered.
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.OPERATION_NOT_ATTEMPTED,  # for another entry, which is logged
    }
)

_ORDINARY_OF: dict[int, frozenset[ErrorCode]] = {
    # What a member hears of a group that went on without it; what it cannot commit then is logged.
    ApiKey.HEARTBEAT: frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}),
    ApiKey.SYNC_GROUP: frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID}),
    ApiKey.JOIN_GROUP: frozenset({ErrorCode.UNKNOWN_MEMBER_ID}),
    ApiKey.LEAVE_GROUP: frozenset({ErrorCode.UNKNOWN_MEMBER_ID}),
    ApiKey.DESCRIBE_GROUPS: frozenset({ErrorCode.GROUP_ID_NOT_FOUND}),
    ApiKey.FETCH: frozenset({ErrorCode.CORRUPT_MESSAGE}),  # the damaged batch is named
    ApiKey.CONSUMER_GROUP_DESCRIBE: frozenset({ErrorCode.GROUP_ID_NOT_FOUND}),
    # Who logs in is named by its address, with what to change.
    ApiKey.SASL_HANDSHAKE: frozenset(ErrorCode),
    ApiKey.SASL_AUTHENTICATE: frozenset(ErrorCode),
}

_CLIENT_IS_SLOW = ("session.timeout.ms", "max.poll.interval.ms")

_SETTINGS: dict[tuple[int, int], tuple[str, ...]] = {
    (ApiKey.PRODUCE, ErrorCode.MESSAGE_TOO_LARGE): ("max.message.bytes",),
    (ApiKey.PRODUCE, ErrorCode.RECORD_LIST_TOO_LARGE): ("segment.bytes",),
    (ApiKey.PRODUCE, ErrorCode.INVALID_TIMESTAMP): (
        "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms",
    ),
    (ApiKey.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS): ("min.insync.replicas",),
    (ApiKey.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND): ("min.insync.replicas",),
    (ApiKey.PRODUCE, ErrorCode.UNKNOWN_PRODUCER_ID): ("producer.id.expiration.ms",),
    (ApiKey.METADATA, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): ("auto.create.topics.enable",),
    (ApiKey.METADATA, ErrorCode.INVALID_REPLICATION_FACTOR): ("default.replication.factor",),
    (ApiKey.DELETE_TOPICS, ErrorCode.TOPIC_DELETION_DISABLED): ("delete.topic.enable",),
    (ApiKey.JOIN_GROUP, ErrorCode.INVALID_SESSION_TIMEOUT): (
        "group.min.session.timeout.ms",
        "group.max.session.timeout.ms",
    ),
    (ApiKey.JOIN_GROUP, ErrorCode.GROUP_MAX_SIZE_REACHED): ("group.max.size",),
    (ApiKey.OFFSET_COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE): ("offset.metadata.max.bytes",),
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.OFFSET_METADATA_TOO_LARGE): ("offset.metadata.max.bytes",),
    (ApiKey.OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID): _CLIENT_IS_SLOW,
    (ApiKey.OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION): _CLIENT_IS_SLOW,
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.UNKNOWN_MEMBER_ID): _CLIENT_IS_SLOW,
    (ApiKey.TXN_OFFSET_COMMIT, ErrorCode.ILLEGAL_GENERATION): _CLIENT_IS_SLOW,
    (ApiKey.INIT_PRODUCER_ID, ErrorCode.INVALID_TRANSACTION_TIMEOUT): (
        "transaction.max.timeout.ms",
    ),
}

# Arrays whose codes concern leaders alone.
_NOT_LOOKED_INTO = frozenset(
    {"MetadataResponsePartition", "DescribeTopicPartitionsResponsePartition"}
)
_NAMES = ("name", "topic", "topic_name", "group_id", "resource_name", "transactional_id", "entity")
_INDEXES = ("partition_index", "index", "partition", "partition_id")
_OF_REQUESTS = ("group_id", "transactional_id", "key", "v3_and_below_transactional_id")


class Refused(NamedTuple):
    """An entry of an answer: what was refused ("" for all that was asked), and why."""

    what: str
    topic: str  # or whatever else bears the name; "" if nothing does
    code: int
    message: str | None = None


def is_told(api_key: int, code: int) -> bool:
    """Return whether the log has this code in an answer of this API."""
    return code not in _ORDINARY and code not in _ORDINARY_OF.get(api_key, ())


def deciding_settings(api_key: int, code: int) -> tuple[str, ...]:
    """The names of the settings that decided: of the topic, the broker or the client."""
    return _SETTINGS.get((api_key, code), ())


def refused_entries(answer: Struct, name: str = "") -> Iterator[Refused]:
    """The entries of an answer that have a code, among the first `LOOKED_AT_MAX`."""
    return _refused(answer, _shape(type(answer)), name, name, [LOOKED_AT_MAX])


def look_for_codes(struct: type[Struct]) -> Callable[[Any], object]:
    """Return what looks at an answer of this class: its outcome is falsy if the answer has no code
    at all, and costs a fraction of going through it. Answers of many entries pass unseen.
    """
    shape = _shape(struct)
    code_of = attrgetter(shape.code) if shape.code is not None else None
    if code_of is not None and not shape.arrays:
        return code_of
    arrays = [(attrgetter(array), look_for_codes(below)) for array, below in shape.arrays]

    def look(entry: Any) -> object:
        if code_of is not None and code_of(entry):
            return True
        for entries_of, look_below in arrays:
            entries = entries_of(entry)
            if isinstance(entries, EncodedRun):  # whoever wrote the others has logged them
                entries = entries.added
            if entries and (len(entries) > _FEW or any(map(look_below, entries))):
                return True
        return False

    return look


def name_in(request: Struct) -> str:
    """The group, transactional id or key that all of a request is about; "" for none."""
    for field in _OF_REQUESTS:
        value = getattr(request, field, None)
        if isinstance(value, str) and value:
            return value
    return ""


class _Shape(NamedTuple):
    """The positions of the fields of a struct that name an entry and its code."""

    code: str | None
    name: str | None
    number: str | None
    message: str | None
    arrays: tuple[tuple[str, type[Struct]], ...]  # whose entries have codes


def _refused(
    entry: Any, shape: _Shape, what: str, topic: str, left: list[int]
) -> Iterator[Refused]:
    if shape.name is not None:
        what = topic = getattr(entry, shape.name) or _unnamed(entry)
    if shape.code is not None and (code := getattr(entry, shape.code)):
        if shape.number is not None:
            what = f"{topic}-{getattr(entry, shape.number)}"
        yield Refused(what, topic, code, getattr(entry, shape.message) if shape.message else None)
    for array, struct in shape.arrays:
        entries = getattr(entry, array) or ()
        if isinstance(entries, EncodedRun):  # whoever wrote the others has logged them
            entries = entries.added
        entries = entries[: left[0]]
        left[0] -= len(entries)
        below = _shape(struct)
        code_of = attrgetter(below.code) if below.code is not None else None
        for each in entries:
            # Most entries have no code and nothing below them: they cost no more than a look.
            if below.arrays or (code_of is not None and code_of(each)):
                yield from _refused(each, below, what, topic, left)


def _unnamed(entry: Any) -> str:
    topic_id = getattr(entry, "topic_id", None)
    return "" if topic_id is None else unnamed_topic(topic_id)


def _shape(struct: type[Struct]) -> _Shape:
    return _worked_out(struct)  # type: ignore[arg-type]  # a class has a hash


@cache
def _worked_out(struct: type[Struct]) -> _Shape:
    fields = list(field_specs(struct))
    plain = {field.name for field in fields if field.struct is None and not field.is_array}

    def first(names: tuple[str, ...]) -> str | None:
        return next((name for name in names if name in plain), None)

    return _Shape(
        first(tuple(CODE_FIELDS)),
        first(_NAMES),
        first(_INDEXES),
        first(("error_message",)),
        tuple(
            (field.name, field.struct)
            for field in fields
            if field.struct is not None
            and field.is_array
            and field.struct.__name__ not in _NOT_LOOKED_INTO
            and _has_codes(field.struct)
        ),
    )


def _has_codes(struct: type[Struct]) -> bool:
    shape = _shape(struct)
    return shape.code is not None or bool(shape.arrays)
