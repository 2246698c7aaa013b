"""The shortcut of Produce requests that differ in partitions and records only.

Law: it appends as the handler does, and answers if all is appended, or followers have it at last.
Whatever else the appends come to goes into the answer that the handler would have made of it. What
may be refused before the log is asked, and what belongs to a transaction, is left to the handler.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from kbroker.apis.context import RequestContext, Services
from kbroker.apis.now_or_later import NowOrLater
from kbroker.apis.produce_answers import FIRST_VERSION_WITH_BATCHES, Answer, answered
from kbroker.apis.produce_validation import FIRST_VERSION_WITH_ZSTD
from kbroker.apis.produce_work import FIRST_VERSION_WITH_TOPIC_IDS, ProduceWork
from kbroker.apis.served_api import Served
from kbroker.apis.shortcut import Answered
from kbroker.errors import NO_ERROR
from kbroker.log.producers.log_append_info import AppendOrigin
from kbroker.model import TopicPartition, new_tuple
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.request import Accepted, Coming, ConnectionInfo
from kbroker.protocol.template import Form
from kbroker.record.compression import COMPRESSION_MASK
from kbroker.record.record_batch import ATTRIBUTES_POSITION, TRANSACTIONAL_BIT
from kbroker.replication.partitions.produce_result import AppendOutcome, PartitionProduceResult

_ATTRIBUTES_AT = ATTRIBUTES_POSITION + 1  # the byte with the codec and whether it is transactional
_FIRST_VERSION_WITH_START_OFFSETS = 5

_CLIENT = AppendOrigin.CLIENT  # a look into the class of an enum costs 70 ns


class ProduceShortcut:
    """Answers the requests of one shape."""

    is_for_all: ClassVar[bool] = True

    __slots__ = (
        "_acks",
        "_append",
        "_are_named",
        "_form",
        "_has_start_offsets",
        "_ids",
        "_left_to_handler",
        "_names",
        "_timeout_ms",
    )

    def __init__(
        self,
        services: Services,
        version: int,
        request: ProduceRequest,
        names: list[str],
        form: Form,
    ) -> None:
        self._append = services.replicas.appends.append_records
        self._are_named = services.metadata.are_named
        self._acks, self._timeout_ms = request.acks, request.timeout_ms
        self._names = names  # of the topic of each partition
        self._ids: list[tuple[UUID, str]] = []
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            ids = [topic.topic_id for topic in request.topic_data for _ in topic.partition_data]
            self._ids = list(dict(zip(ids, names, strict=True)).items())
        self._form = form
        self._has_start_offsets = version >= _FIRST_VERSION_WITH_START_OFFSETS
        self._left_to_handler = TRANSACTIONAL_BIT
        if version < FIRST_VERSION_WITH_ZSTD:
            self._left_to_handler |= COMPRESSION_MASK

    @classmethod
    def of(
        cls,
        services: Services,
        served: Served,
        request: ProduceRequest,
        _connection: ConnectionInfo,
    ) -> ProduceShortcut | None:
        """The shortcut of requests like this one; None for those of a transaction, of old formats,
        that name a topic again, and for those of which something is refused.
        """
        version = served.version
        if version < FIRST_VERSION_WITH_BATCHES or request.transactional_id is not None:
            return None
        work = ProduceWork(request, version, services.metadata.topic_name)
        work.sort(request.topic_data)
        places = [place for place, _ in work.entries]
        entries = sum(len(topic.partition_data) for topic in request.topic_data)
        if work.has_error or len(places) != entries:
            return None
        response = work.fill([PartitionProduceResult(place) for place in places])
        topics = sum(bool(topic.partition_data) for topic in request.topic_data)
        if len(response.responses) != topics:
            return None  # a topic that is named again is answered once, in another order
        form = Form(response, version, served.header.pack(0))
        return cls(services, version, request, [place.topic for place in places], form)

    def answer(self, values: list[Any]) -> Answered | Coming[Answered] | None:
        """The answer to a request with these values, as `Shortcut` says."""
        if self._ids and not self._are_named(self._ids):
            return None
        entries: list[tuple[TopicPartition, memoryview]] = []
        at = 1
        for name in self._names:
            records = values[at + 1]
            if len(records) <= _ATTRIBUTES_AT or records[_ATTRIBUTES_AT] & self._left_to_handler:
                return None
            entries.append((new_tuple(TopicPartition, (name, values[at])), records))
            at += 2
        if at > 3 and len({place for place, _ in entries}) < len(entries):
            return None
        outcome = self._append(entries, self._acks, self._timeout_ms, _CLIENT)
        results, settled, appended = outcome
        if settled is None:
            return self._answered(values[0], results)
        if appended is not None:
            return partial(_conclude, outcome)
        values[2::2] = [None] * len(entries)  # while it waits, nobody may look at the buffer
        return Accepted(settled, lambda: self._answered(values[0], results))

    def _answered(self, correlation_id: int, results: list[PartitionProduceResult]) -> Answered:
        filled: list[int] = [correlation_id]
        for result in results:
            if result.error_code is not NO_ERROR:
                return partial(_conclude, AppendOutcome(results))
            filled += (result.topic_partition[1], result.base_offset, result.log_append_time_ms)
            if self._has_start_offsets:
                filled.append(result.log_start_offset)
        return self._form.frame(filled) if self._acks else b""


def _conclude(
    outcome: AppendOutcome, ctx: RequestContext, request: ProduceRequest
) -> NowOrLater[Answer]:
    """The handler of a request whose records went to the log already."""
    work = ProduceWork(request, ctx.api_version, ctx.services.metadata.topic_name)
    work.place(request.topic_data)
    return answered(outcome, ctx, request, work)
