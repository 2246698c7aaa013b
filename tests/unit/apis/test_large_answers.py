"""Answers that are larger than their requests take their memory before they are made."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.apis.context import RequestContext
from kbroker.apis.kafka_apis import KafkaApis
from kbroker.apis.large_answers import written
from kbroker.apis.registry import Api
from kbroker.apis.request_parts import AS_A_WHOLE, LARGEST_ANSWER_BYTES, Parts
from kbroker.errors import ErrorCode, ProtocolError
from kbroker.memory_room import REQUESTS_BYTES
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kbroker.protocol.request import Response
from kbroker.protocol.schema import Versions
from kbroker.slices import slices
from kbroker.turns import ENTRIES, turns
from tests.fakes.requests.recording_replier import request_of

KEY, VERSION, HEADER_BYTES = 15, 4, 4
Group = DescribeGroupsResponse.DescribedGroup
GROUP_BYTES = 4_000


class Teller:
    """Tells `count` groups for each that is asked for."""

    def __init__(self, services: Any, count: int, parts: Parts = AS_A_WHOLE) -> None:
        self.count = count
        self.begun = 0
        self.alive: set[int] = set()
        self.most_alive = 0
        versions = Versions.parse("0-6")
        api = Api(KEY, "DescribeGroups", DescribeGroupsRequest, versions, self.handle, parts=parts)
        self.apis = KafkaApis({KEY: api}, services)

    async def handle(self, ctx: RequestContext, request: DescribeGroupsRequest) -> Any:
        count = self.count * len(request.groups)
        parts = self.told(count)
        return await written(ctx, DescribeGroupsResponse(), "groups", parts, count * GROUP_BYTES)

    def told(self, count: int) -> Iterator[list[Group]]:
        self.begun += 1
        for numbers in slices(range(count), ENTRIES):
            yield [self.group(number) for number in numbers]

    def group(self, number: int) -> Group:
        group = Group(group_id=str(number), protocol_data="p" * GROUP_BYTES)
        self.alive.add(number)
        self.most_alive = max(self.most_alive, len(self.alive))
        weakref.finalize(group, self.alive.discard, number)
        return group

    async def ask(self, *groups: str) -> Response:
        body = encode(DescribeGroupsRequest(groups=list(groups)), VERSION)
        answer: Any = self.apis.handle(request_of(KEY, VERSION, body))
        response: Response = await answer
        return response


def groups_of(response: Response) -> list[Group]:
    data = b"".join(bytes(piece) for piece in response.pieces)  # type: ignore[arg-type]
    answer, end = decode(DescribeGroupsResponse, VERSION, data, HEADER_BYTES)
    assert end == len(data)
    return answer.groups


async def test_it_is_written_part_by_part_with_turns_in_between(call: Any) -> None:
    teller = Teller(call.services, 1_000)

    asking = asyncio.ensure_future(teller.ask("g"))
    others = 0
    while not asking.done():
        await asyncio.sleep(0)
        others += 1

    assert [group.group_id for group in groups_of(await asking)] == [str(n) for n in range(1_000)]
    assert teller.most_alive <= ENTRIES + 1
    assert others >= 1_000 // ENTRIES


async def test_many_that_are_not_read_are_begun_as_there_is_memory_for_them(call: Any) -> None:
    teller, answers = Teller(call.services, 256), list[Response]()
    clients = {asyncio.ensure_future(teller.ask("g")) for _ in range(500)}
    for client in list(clients):
        client.add_done_callback(lambda done: answers.append(done.result()))
        client.add_done_callback(clients.remove)
    del client
    for _ in range(3_000):
        await asyncio.sleep(0)

    assert teller.begun <= REQUESTS_BYTES // (256 * GROUP_BYTES)
    assert len(answers) < 500
    while clients:  # now they are read
        answers.clear()
        await asyncio.sleep(0)
    assert teller.begun == 500


async def test_those_that_get_their_memory_at_once_begin_in_turns_of_their_own(call: Any) -> None:
    async def begun() -> int:
        ctx = RequestContext(request_of(KEY, VERSION, b"").header, call.connection, call.services)
        memory = await ctx.take(GROUP_BYTES)
        assert memory.size_bytes == GROUP_BYTES
        return turns().given

    turns_of = await asyncio.gather(*(begun() for _ in range(10)))

    assert len(set(turns_of)) == 10


async def test_an_answer_holds_what_its_bytes_take_until_it_has_left(call: Any) -> None:
    teller = Teller(call.services, 300)

    answer = await teller.ask("g")

    assert teller.apis.room.taken_bytes == sum(map(len, answer.pieces))
    del answer
    assert teller.apis.room.taken_bytes == 0


@pytest.mark.parametrize("parts", [AS_A_WHOLE, Parts("groups", "groups")])
async def test_those_of_large_requests_take_more_of_the_memory_of_their_request(
    call: Any, parts: Parts
) -> None:
    teller = Teller(call.services, 1, parts)
    names = ["g" * 30_000] * 3

    first, second = await asyncio.gather(teller.ask(*names), teller.ask(*names))

    codes = [group.error_code for group in groups_of(first) + groups_of(second)]
    assert codes == [ErrorCode.NONE] * 6
    assert teller.apis.small_room.taken_bytes == sum(map(len, first.pieces + second.pieces))


async def test_one_that_no_client_takes_is_refused_before_more_of_it_is_made(call: Any) -> None:
    teller = Teller(call.services, LARGEST_ANSWER_BYTES // GROUP_BYTES * 10)

    answer = await teller.ask("g")

    assert [group.error_code for group in groups_of(answer)] == [ErrorCode.INVALID_REQUEST]
    assert teller.apis.room.taken_bytes < 1_000


async def test_those_whose_clients_have_gone_are_given_up(call: Any) -> None:
    teller = Teller(call.services, 100_000)
    body = encode(DescribeGroupsRequest(groups=["g"]), VERSION)
    request = request_of(KEY, VERSION, body)
    asking = asyncio.ensure_future(teller.apis.handle(request))  # type: ignore[arg-type]
    for _ in range(10):
        await asyncio.sleep(0)
    assert teller.most_alive

    request.connection.is_closed = True

    with pytest.raises(ProtocolError, match="gone"):
        await asking
    assert teller.most_alive <= 2 * ENTRIES
    assert teller.apis.room.taken_bytes == 0
