"""What a lane costs when many leave it at once."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, cast

import pytest

from kbroker.model import Broker
from kbroker.peers.node_to_controller_channel import PeerClient
from kbroker.peers.request_lane import RequestLane
from kbroker.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest


class Numbers:
    def name_of(self, question: int) -> Hashable:
        return question

    def request(self, _questions: Sequence[int]) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest()

    def answers(self, _response: Any) -> Mapping[Hashable, int]:
        return {}

    def unanswered(self, _question: int, _error: Exception | None) -> int:
        return -1


class Silent:
    """A broker that never answers."""

    under_way = 0

    async def send(self, _request: Any, *, timeout_ms: float) -> Any:
        assert timeout_ms
        self.under_way += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.under_way -= 1


class CountedFuture(asyncio.Future[Any]):
    looks = 0

    def done(self) -> bool:
        CountedFuture.looks += 1
        return super().done()


async def test_each_that_leaves_looks_at_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    silent, many = Silent(), 300
    lane = RequestLane(Numbers(), cast(Broker, None), cast(PeerClient, silent), 1000)
    with monkeypatch.context() as patched:
        patched.setattr(asyncio.get_running_loop(), "create_future", CountedFuture)
        asking = [asyncio.ensure_future(lane.ask(number)) for number in range(many)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert silent.under_way == 1

    *leaving, staying = asking
    for each in leaving:
        each.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)

    assert silent.under_way == 1
    staying.cancel()
    await asyncio.gather(staying, return_exceptions=True)
    await asyncio.sleep(0)
    assert silent.under_way == 0
    assert CountedFuture.looks < 20 * many
