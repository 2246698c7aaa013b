"""What is kept of producers that were refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kbroker.apis.context import RequestContext
from kbroker.apis.transaction_verification import Joining, refused_partitions
from kbroker.coordinator.transaction.participation import Participation
from kbroker.errors import ErrorCode
from kbroker.log.producers.producer_state import ProducerStateEntry, ProducerStateManager
from kbroker.log.producers.verification import TransactionalBatch
from kbroker.model import TopicPartition
from kbroker.protocol.header import RequestHeader
from tests.fakes.clusters.replication_cluster import ReplicationCluster
from tests.fakes.requests.api_context import ApiCaller, connection
from tests.fakes.requests.transactional import Transactional

T = TopicPartition("t", 0)
BATCH = TransactionalBatch(7, 0, 0)


class Coordinators:
    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def is_enabled(self) -> bool:
        return True

    def verify(self, asked: Participation) -> Any:
        return asked.all_are(self.code)


@pytest.mark.parametrize(
    ("code", "is_kept"),
    [
        (ErrorCode.INVALID_REQUEST, False),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False),
        (ErrorCode.PRODUCER_FENCED, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, True),
    ],
)
def test_who_comes_no_more_is_forgotten(
    code: ErrorCode, is_kept: bool, cluster: ReplicationCluster, call: ApiCaller
) -> None:
    producers = ProducerStateManager(T)
    cluster.lead("t").log.producer_state = producers  # type: ignore[misc]
    state = producers.begin_verification(BATCH, 0)
    assert state is not None
    services: Any = replace(
        call.services, transactional=Transactional(participation=Coordinators(code))
    )
    ctx = RequestContext(RequestHeader(0, 11, 1, None), connection(), services)

    refused = refused_partitions(ctx, "x", {T: BATCH}, Joining.ABORTABLE)

    assert isinstance(refused, dict)
    assert list(refused) == [T]
    assert producers.is_asked(BATCH, state) is is_kept


@pytest.mark.parametrize("how", Joining)
def test_nobody_is_asked_about_an_epoch_that_is_over(
    how: Joining, cluster: ReplicationCluster, call: ApiCaller
) -> None:
    producers = ProducerStateManager(T)
    producers.load([ProducerStateEntry(7, producer_epoch=1)], 0)
    cluster.lead("t").log.producer_state = producers  # type: ignore[misc]
    services: Any = call.services
    ctx = RequestContext(RequestHeader(0, 11, 1, None), connection(), services)

    refused = refused_partitions(ctx, "x", {T: BATCH}, how)

    assert refused == {T: ErrorCode.INVALID_PRODUCER_EPOCH}
