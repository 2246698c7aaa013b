"""An authorizer of the operator's own: what it may do wrong, and that nothing of it grants."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.acl.acl import CLUSTER, AclOperation, AclResource, AclResourceType
from kbroker.admin.own_authorizer import ANSWER_S, AclQuestion, OwnAuthorizer
from tests.fakes.requests.recording_replier import local_connection
from tests.fakes.running.virtual_time import VirtualTime
from tests.fakes.running.waiting import until

TOPIC = AclResource(AclResourceType.TOPIC, "orders")
LONG_S = 30.0


def made_of(
    authorize: Callable[[AclQuestion], Any], answer_s: float = LONG_S, **more: Any
) -> OwnAuthorizer:
    decider = SimpleNamespace(authorize=authorize, **more)
    return OwnAuthorizer("team:Team", decider, frozenset({"User:admin"}), VirtualTime(), answer_s)


def may_read(authorizer: OwnAuthorizer, principal: str = "User:ann") -> bool:
    connection = local_connection()
    connection.principal = principal
    return authorizer.authorize(connection, AclOperation.DESCRIBE_CONFIGS, TOPIC)


async def test_it_is_asked_in_kafkas_words_on_a_thread_and_super_users_are_not_asked_about() -> (
    None
):
    asked: list[tuple[AclQuestion, str]] = []

    def authorize(question: AclQuestion) -> bool:
        asked.append((question, threading.current_thread().name))
        return question.principal == "User:ann"

    authorizer = made_of(authorize)
    assert [may_read(authorizer, f"User:{name}") for name in ("ann", "bob", "admin")] == [
        True,
        False,
        True,
    ]
    question = AclQuestion(
        "User:ann", "127.0.0.1", local_connection().listener_name, "DescribeConfigs", "Topic",
        "orders",
    )  # fmt: skip
    assert asked == [
        (question, "authorizer"),
        (question._replace(principal="User:bob"), "authorizer"),
    ]
    await authorizer.stop()


async def test_about_any_resource_of_a_type_it_is_asked_if_it_says_so_and_else_refuses() -> None:
    asked = local_connection(), AclOperation.WRITE, AclResourceType.TOPIC
    silent = made_of(lambda _: True)
    assert not await silent.authorize_by_resource_type(*asked)
    seen: list[AclQuestion] = []
    speaking = made_of(lambda _: False, authorize_by_resource_type=lambda q: seen.append(q) or True)
    assert await speaking.authorize_by_resource_type(*asked)
    assert [(q.operation, q.resource_type, q.resource_name) for q in seen] == [
        ("Write", "Topic", "")
    ]
    await speaking.stop()


def raises(_: AclQuestion) -> bool:
    raise RuntimeError("a bug" * 1_000)


async def waits(_: AclQuestion) -> bool:
    return True


@pytest.mark.parametrize(
    ("authorize", "named"),
    [
        (raises, "it raised RuntimeError"),
        (lambda _: sys.exit(0), "it raised SystemExit"),
        (lambda _: 1, "it answered with int"),
        (lambda _: "no", "it answered with str"),
        (lambda _: None, "it answered with NoneType"),
    ],
)
async def test_nothing_but_true_grants_and_the_log_names_the_rest_once(
    authorize: Callable[[AclQuestion], Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    authorizer = made_of(authorize)

    assert [may_read(authorizer) for _ in range(3)] == [False] * 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"what authorizer.class.name=team:Team was asked is refused: {named}")
    assert len(line) < 300
    await authorizer.stop()


async def test_a_coroutine_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    coroutines: list[Any] = []

    def authorize(question: AclQuestion) -> Any:
        coroutines.append(waits(question))
        return coroutines[-1]

    authorizer = made_of(authorize)
    assert not may_read(authorizer)
    assert "it answered with coroutine" in caplog.text
    coroutines[0].close()
    await authorizer.stop()


async def test_one_that_takes_too_long_is_refused_and_so_are_others_until_it_has_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ANSWER_S <= 0.25, "so long others wait at most"
    go, asked = threading.Event(), threading.Semaphore(0)

    def authorize(_: AclQuestion) -> bool:
        asked.release()
        return go.wait(LONG_S)

    authorizer = made_of(authorize, answer_s=0.001)
    assert not may_read(authorizer)
    assert "it has not answered within 0.001 s" in caplog.text
    assert [may_read(authorizer) for _ in range(3)] == [False] * 3
    assert "it is still at a former question" in caplog.text
    assert may_read(authorizer, "User:admin")
    assert asked.acquire()
    assert not asked.acquire(blocking=False), "it was not asked again"
    go.set()
    await until(lambda: may_read(authorizer))
    await authorizer.stop()


async def test_questions_of_one_turn_hold_it_up_no_longer_than_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go = threading.Event()
    authorizer = made_of(lambda _: go.wait(LONG_S), answer_s=0.001)
    assert not may_read(authorizer)
    late = authorizer.late
    go.set()
    assert late is not None
    assert late.done.wait(LONG_S)

    assert not may_read(authorizer), "it would answer at once now"
    assert "it has taken 0.001 s for questions of one turn of the loop" in caplog.text
    await until(lambda: may_read(authorizer))
    await authorizer.stop()


async def test_without_a_thread_everything_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    authorizer = made_of(lambda _: True)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        assert not authorizer.authorize(local_connection(), AclOperation.ALTER, CLUSTER)
    assert "there is no thread for it" in caplog.text
    assert may_read(authorizer)
    await authorizer.stop()
