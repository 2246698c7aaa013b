from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from kbroker.errors import ProtocolError
from kbroker.network.request_channel import RequestChannel
from kbroker.network.request_handler_pool import KafkaRequestHandlerPool
from kbroker.protocol.request import Accepted, Coming, FutureLike, Request, Response
from tests.fakes.requests.recording_replier import RecordingReplier, request_of


def test_a_direct_answer_is_handed_back_before_send_returns() -> None:
    channel, replier, answer = RequestChannel(1), RecordingReplier(), Response([b"x"])
    KafkaRequestHandlerPool(lambda request: answer, channel).start()
    channel.send(replier, request_of(3, 0, b""))
    assert replier.results == [answer]


def test_bytes_that_are_no_request_fail_the_connection() -> None:
    odd = ProtocolError("odd")

    def handle(request: Request) -> Response:
        raise odd

    channel, replier = RequestChannel(1), RecordingReplier()
    KafkaRequestHandlerPool(handle, channel).start()
    channel.send(replier, request_of(3, 0, b""))
    assert (replier.results, replier.failures) == ([], [odd])


async def test_a_waiting_request_lets_others_pass() -> None:
    gate: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    direct, late = Response([b"direct"]), Response([b"late"])

    def handle(request: Request) -> Response | Awaitable[Response]:
        return direct if request.header.api_key == 3 else wait()

    async def wait() -> Response:
        return await gate

    channel, first, second = RequestChannel(1), RecordingReplier(), RecordingReplier()
    pool = KafkaRequestHandlerPool(handle, channel)
    pool.start()
    channel.send(first, request_of(1, 0, b""))
    channel.send(second, request_of(3, 0, b""))
    assert (first.results, second.results, pool.waiting) == ([], [direct], 1)
    gate.set_result(late)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (first.results, pool.waited.value) == ([late], 1)


async def test_shutdown_cancels_what_waits() -> None:
    async def forever() -> Response:
        await asyncio.sleep(3600)
        return Response([])

    channel, replier = RequestChannel(1), RecordingReplier()
    pool = KafkaRequestHandlerPool(lambda request: forever(), channel)
    pool.start()
    channel.send(replier, request_of(1, 0, b""))
    await asyncio.sleep(0)
    assert pool.waiting == 1
    await pool.shutdown()
    assert (pool.waiting, replier.results) == (0, [])


async def test_an_accepted_request_is_answered_when_its_outcome_is_there() -> None:
    outcome: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    channel, replier, late = RequestChannel(1), RecordingReplier(), Response([b"late"])
    pool = KafkaRequestHandlerPool(lambda request: Accepted(outcome, outcome.result), channel)
    pool.start()
    channel.send(replier, request_of(0, 0, b""))
    assert (replier.results, pool.waiting) == ([], 1)
    outcome.set_result(late)
    await asyncio.sleep(0)
    assert (replier.results, pool.waiting) == ([late], 0)


class OneAfterTheOther(RecordingReplier):
    """A connection that may begin no other request."""

    def accept(self, outcome: FutureLike) -> RecordingReplier:
        raise AssertionError("the request is not carried out")


async def test_a_coming_answer_keeps_its_connection_and_takes_no_task() -> None:
    outcome: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    channel, replier, late = RequestChannel(1), OneAfterTheOther(), Response([b"late"])
    pool = KafkaRequestHandlerPool(lambda request: Coming(outcome, outcome.result), channel)
    pool.start()
    tasks = len(asyncio.all_tasks())
    channel.send(replier, request_of(1, 0, b""))
    assert (len(asyncio.all_tasks()), pool.waiting, pool.waited.value) == (tasks, 1, 1)
    outcome.set_result(late)
    await asyncio.sleep(0)
    assert (replier.results, pool.waiting) == ([late], 0)


async def test_shutdown_gives_up_coming_answers_in_silence() -> None:
    outcome: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    channel, replier = RequestChannel(1), RecordingReplier()
    pool = KafkaRequestHandlerPool(lambda request: Coming(outcome, outcome.result), channel)
    pool.start()
    channel.send(replier, request_of(1, 0, b""))
    await pool.shutdown()
    await asyncio.sleep(0)
    assert (outcome.cancelled(), pool.waiting) == (True, 0)
    assert (replier.results, replier.failures) == ([], [])


async def test_a_bug_in_an_accepted_request_fails_its_connection() -> None:
    outcome: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def bug() -> Response:
        raise AssertionError("a bug")

    channel, replier = RequestChannel(1), RecordingReplier()
    KafkaRequestHandlerPool(lambda request: Accepted(outcome, bug), channel).start()
    channel.send(replier, request_of(0, 0, b""))
    outcome.set_result(Response([]))
    await asyncio.sleep(0)
    assert len(replier.failures) == 1


async def test_a_bug_in_a_waiting_request_fails_its_connection() -> None:
    async def bug() -> Response:
        raise AssertionError("a bug")

    channel, replier = RequestChannel(1), RecordingReplier()
    KafkaRequestHandlerPool(lambda request: bug(), channel).start()
    channel.send(replier, request_of(1, 0, b""))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(replier.failures) == 1


def test_some_keys_are_answered_before_the_others_which_wait() -> None:
    answer = Response([b"x"])
    channel, admitted, kept = RequestChannel(1), RecordingReplier(), RecordingReplier()
    pool = KafkaRequestHandlerPool(lambda request: answer, channel)
    pool.start_for(frozenset({6}))

    channel.send(kept, request_of(3, 0, b""))
    channel.send(admitted, request_of(6, 0, b""))
    assert (admitted.results, kept.results) == ([answer], [])

    pool.start()
    assert kept.results == [answer]


def test_any_number_of_connections_may_wait_for_the_start() -> None:
    channel, answer = RequestChannel(1), Response([b"x"])
    repliers = [RecordingReplier() for _ in range(1_000)]
    pool = KafkaRequestHandlerPool(lambda request: answer, channel)
    pool.start_for(frozenset())

    for replier in repliers:
        channel.send(replier, request_of(3, 0, b""))
    assert not channel.is_full
    pool.start()

    assert [replier.results for replier in repliers] == [[answer]] * 1_000


def test_requests_of_connections_that_closed_before_the_start_do_not_pile_up() -> None:
    channel, handled = RequestChannel(1), []
    pool = KafkaRequestHandlerPool(lambda request: handled.append(request) or Response([]), channel)
    pool.start_for(frozenset())

    for _ in range(5_000):
        replier = RecordingReplier()
        channel.send(replier, request_of(3, 0, b""))
        replier.is_closed = True
    pool.start()

    assert len(handled) <= 256


async def test_a_start_that_ends_in_a_stop_answers_nothing() -> None:
    channel, replier = RequestChannel(1), RecordingReplier()
    pool = KafkaRequestHandlerPool(lambda request: Response([]), channel)
    pool.start_for(frozenset())
    channel.send(replier, request_of(3, 0, b""))
    await pool.shutdown()
    pool.start()

    assert replier.results == []


def test_another_handler_answers_from_the_next_request_on() -> None:
    channel, replier = RequestChannel(1), RecordingReplier()
    first, second = Response([b"first"]), Response([b"second"])
    pool = KafkaRequestHandlerPool(lambda request: first, channel)
    pool.start()
    assert channel.settle is not None

    channel.send(replier, request_of(3, 0, b""))
    pool.use(lambda request: second, takes_short_ways=False)
    channel.send(replier, request_of(3, 0, b""))

    assert replier.results == [first, second]
    assert channel.settle is None
    pool.use(lambda request: first)
    assert channel.settle is not None


def test_a_pool_that_has_not_started_takes_short_ways_only_if_it_may() -> None:
    channel = RequestChannel(1)
    pool = KafkaRequestHandlerPool(lambda request: Response([]), channel)
    pool.use(lambda request: Response([]), takes_short_ways=False)
    assert channel.settle is None

    pool.start()
    assert channel.settle is None
    pool.use(lambda request: Response([]))
    assert channel.settle is not None
