"""Answers whose schemas in kio cannot read what Apache Kafka sends.

A transaction that has not begun began at -1, a delegation token that is refused ends then, and kio
knows no time before 1970. kio reads the types of fields, so annotations must not become text here.
"""

from dataclasses import dataclass, field, fields, make_dataclass
from functools import cache
from typing import Any, ClassVar

from kio.index import load_response_schema
from kio.schema.describe_transactions.v0.response import TopicData
from kio.schema.errors import ErrorCode
from kio.schema.response_header.v1.header import ResponseHeader
from kio.schema.types import ProducerId, TransactionalId
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    __type__: ClassVar = EntityType.nested
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(65)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(65)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[TransactionState, ...]


_DELEGATION_TOKENS = range(38, 41)


@cache
def response_schema(key: int, version: int) -> Any:
    """The schema of an answer: kio's, or the one here."""
    if key == 65:
        return DescribeTransactionsResponse
    schema = load_response_schema(key, version)
    return _with_numbers(schema) if key in _DELEGATION_TOKENS else schema


def _with_numbers(schema: Any) -> Any:
    """The same with times as numbers of milliseconds."""
    mended = []
    for each in fields(schema):
        kind = each.metadata.get("kafka_type")
        is_time = kind == "datetime_i64"
        metadata = {"kafka_type": "int64"} if is_time else each.metadata
        mended.append((each.name, i64 if is_time else each.type, field(metadata=metadata)))
    constants = {
        name: getattr(schema, name)
        for name in ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
    }
    return make_dataclass(
        schema.__name__, mended, namespace=constants, frozen=True, slots=True, kw_only=True
    )
