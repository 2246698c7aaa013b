"""Clients write under producer ids that no broker has given out: Kafka takes them, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.errors import ErrorCode
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.fakes.running.waiting import until
from tests.integration.local_cluster_client import Cluster, running
from tests.integration.test_producer_expiry import produce


@pytest.mark.parametrize("invented_id", [2**63 - 1, 2**63 - 2_500, 2**62, 2**62 - 1])
async def test_an_invented_id_takes_none_from_other_producers_at_the_next_start(
    tmp_path: Path, invented_id: int
) -> None:
    async with running(tmp_path, brokers=1) as cluster:
        assert await cluster.create("t", 1) is ErrorCode.NONE
        assert await produce(cluster, 41_000, 0) is ErrorCode.NONE
        assert await produce(cluster, invented_id, 0) is ErrorCode.NONE

    for _ in range(2):
        async with running(tmp_path, brokers=1) as cluster:
            first_id = await given_id(cluster)
            assert 41_000 < first_id < 2**63 - 2_000
            assert first_id != invented_id


async def given_id(cluster: Cluster) -> int:
    async def ask() -> int | None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = await cluster.ask(0, request)
        return None if answer.error_code else int(answer.producer_id)

    return int(await until(ask))
