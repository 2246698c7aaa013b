"""How a cluster is asked from the loop of a web server."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from kbroker.client.client_error import ClientError
from kbroker.client.cluster_links import ClusterLinks
from kbroker.client.exit_code import ExitCode
from kbroker.console.consoled_cluster import AT_ONCE, ConsoledCluster, GivenUpError, Work
from kbroker.errors import ErrorCode, KafkaError
from tests.fakes.running.waiting import until


class Links:
    """Links to nowhere, which know whether they are closed."""

    def __init__(self) -> None:
        self.silent: dict[int, Exception] = {}
        self.sleep: Callable[[float], None] = lambda _: None
        self.is_closed = False
        self.in_flight: list[Any] = []

    def busy(self) -> list[Any]:
        return self.in_flight

    def lose(self, link: Any) -> None:
        self.in_flight = [each for each in self.in_flight if each is not link]

    def close(self) -> None:
        self.is_closed = True


class Opened:
    """A cluster whose links are counted."""

    def __init__(self) -> None:
        self.links: list[Links] = []
        self.cluster = ConsoledCluster("b:1", self._open)

    def _open(self, _bootstrap: str) -> ClusterLinks:
        self.links.append(Links())
        return cast("ClusterLinks", self.links[-1])


def thread_name(_: Work) -> str:
    return threading.current_thread().name


async def test_a_question_is_asked_on_a_thread_of_its_own_and_links_are_kept() -> None:
    opened = Opened()

    names = [await opened.cluster.ask(thread_name) for _ in range(3)]

    assert names == ["console"] * 3
    assert len(opened.links) == 1
    opened.cluster.close()
    assert opened.links[0].is_closed


@pytest.mark.parametrize(
    ("error", "sentence", "code"),
    [
        (TimeoutError("no answer"), "b:1 did not answer in time: no answer", ExitCode.TIMEOUT),
        (
            ConnectionResetError("gone"),
            "a broker of b:1 cannot be reached: gone",
            ExitCode.CANNOT_CONNECT,
        ),
        (
            KafkaError(ErrorCode.INVALID_REQUEST, "no"),
            "INVALID_REQUEST: no",
            ExitCode.ITEM_FAILED,
        ),
        (
            struct.error("'i' format requires"),
            "a number is beyond what Kafka takes",
            ExitCode.USAGE,
        ),
    ],
)
async def test_an_error_has_a_sentence_and_links_are_opened_again(
    error: Exception, sentence: str, code: ExitCode
) -> None:
    opened = Opened()

    def fail(_: Work) -> None:
        raise error

    with pytest.raises(ClientError) as raised:
        await opened.cluster.ask(fail)
    await opened.cluster.ask(thread_name)

    assert (raised.value.sentence, raised.value.code) == (sentence, code)
    assert [links.is_closed for links in opened.links] == [True, False]
    opened.cluster.close()


async def test_answers_that_nobody_took_do_not_answer_the_next_question() -> None:
    opened = Opened()

    def leave(work: Work) -> None:
        cast("Any", work.links).in_flight.append(object())

    await opened.cluster.ask(leave)

    assert opened.links[0].in_flight == []
    opened.cluster.close()


async def test_only_some_questions_are_at_work_at_once() -> None:
    opened = Opened()
    go_on = threading.Event()
    most = 0

    def wait(_: Work) -> None:
        nonlocal most
        most = max(most, opened.cluster.at_work)
        go_on.wait()

    asked = [asyncio.create_task(opened.cluster.ask(wait)) for _ in range(3 * AT_ONCE)]
    await until(lambda: opened.cluster.at_work == AT_ONCE)
    go_on.set()
    await asyncio.gather(*asked)

    assert most == AT_ONCE
    assert len(opened.links) <= AT_ONCE
    opened.cluster.close()


async def test_a_question_that_is_given_up_ends() -> None:
    opened = Opened()
    begun, ended = threading.Event(), threading.Event()

    def search(work: Work) -> None:
        begun.set()
        try:
            work.sleep(60)
        except GivenUpError:
            ended.set()
            raise

    asked = asyncio.create_task(opened.cluster.ask(search))
    await asyncio.to_thread(begun.wait)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await asyncio.to_thread(ended.wait)
    await until(lambda: not opened.cluster.at_work)

    assert opened.links[0].is_closed
    assert await opened.cluster.ask(thread_name) == "console"
    opened.cluster.close()


async def test_a_question_that_computes_makes_way_and_ends_when_it_is_given_up() -> None:
    opened = Opened()
    begun = threading.Event()

    def compute(work: Work) -> None:
        while True:
            work.make_way()
            begun.set()

    asked = asyncio.create_task(opened.cluster.ask(compute))
    await asyncio.to_thread(begun.wait)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    await until(lambda: not opened.cluster.at_work)

    assert opened.links[0].is_closed
    opened.cluster.close()


async def test_a_question_whose_time_is_over_says_so_to_itself() -> None:
    opened = Opened()

    assert await opened.cluster.ask(lambda work: work.is_late, 0.0)
    assert not await opened.cluster.ask(lambda work: work.is_late, 60.0)
    opened.cluster.close()


async def test_a_question_for_which_there_is_no_thread_keeps_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    opened = Opened()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for _ in range(2 * AT_ONCE):
            with pytest.raises(ClientError, match="no thread to ask on"):
                await opened.cluster.ask(thread_name)

    assert opened.cluster.at_work == 0
    assert await opened.cluster.ask(thread_name) == "console"
