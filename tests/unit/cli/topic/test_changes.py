"""A controller that refuses a topic and gives no reason is told in words."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.client import topic_changes, topic_requests
from kbroker.errors import ErrorCode


@pytest.mark.parametrize(
    ("code", "message", "sentence"),
    [
        (
            ErrorCode.REQUEST_TIMED_OUT,
            None,
            "t: its partitions have no leader within 20 s: `kbroker topic describe t` shows "
            "whether one comes, and the log of their broker says what it lacks, such as space on "
            "its disk (REQUEST_TIMED_OUT)",
        ),
        (
            ErrorCode.REQUEST_TIMED_OUT,
            "The controller gave no answer within 20 s. Look, or ask again.",
            "t: The controller gave no answer within 20 s. Look, or ask again. (REQUEST_TIMED_OUT)",
        ),
        (
            ErrorCode.KAFKA_STORAGE_ERROR,
            None,
            "t: a disk of the controller is full, or has failed, as its log says "
            "(KAFKA_STORAGE_ERROR)",
        ),
        (
            ErrorCode.NOT_CONTROLLER,
            None,
            "t: the controller has just moved: try again; if it stays so, its log says why "
            "(NOT_CONTROLLER)",
        ),
        (ErrorCode.INVALID_CONFIG, None, "t: INVALID_CONFIG"),
    ],
)
def test_a_topic_that_was_not_made_is_told_with_the_reason(
    code: ErrorCode, message: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = SimpleNamespace(name="t", error_code=int(code), error_message=message)
    answer = SimpleNamespace(topics=[result], results=[result])
    monkeypatch.setattr(topic_requests, "ask_controller", lambda *_: answer)
    links: Any = None

    refusal = topic_changes.Refusal(sentence, code)
    assert topic_changes.made_topics(links, ["t"], {}, print, partitions=1) == [refusal]
    assert topic_changes.grown(links, "t", 2, print) == [refusal]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            ErrorCode.REQUEST_TIMED_OUT,
            "t: it was not gone within 20 s, and goes once its brokers are there "
            "(REQUEST_TIMED_OUT)",
        ),
        (
            ErrorCode.KAFKA_STORAGE_ERROR,
            "t: a disk of the controller is full, or has failed, as its log says "
            "(KAFKA_STORAGE_ERROR)",
        ),
        (
            ErrorCode.TOPIC_DELETION_DISABLED,
            "t: the brokers have delete.topic.enable=false (TOPIC_DELETION_DISABLED)",
        ),
    ],
)
def test_a_topic_that_was_not_deleted_is_told_with_the_reason(
    code: ErrorCode, sentence: str
) -> None:
    result = SimpleNamespace(name="t", error_code=int(code), error_message=None)

    assert topic_changes.deletion_refusal(result) == sentence


@pytest.mark.parametrize("may_exist", [True, False])
@pytest.mark.parametrize(
    ("seen", "sentences"),
    [
        (ErrorCode.NONE, ["topic t exists already, which is fine with --if-not-exists"]),
        (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ["topic t is still being deleted: it goes once all brokers of its replicas are there"],
        ),
    ],
)
def test_a_topic_that_is_being_deleted_is_not_taken_for_one_that_is_there(
    seen: ErrorCode, sentences: list[str], may_exist: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = ErrorCode.TOPIC_ALREADY_EXISTS
    result = SimpleNamespace(name="t", error_code=int(code), error_message=None)
    answer = SimpleNamespace(topics=[result])
    monkeypatch.setattr(topic_requests, "ask_controller", lambda *_: answer)
    view = SimpleNamespace(code=seen)
    links: Any = SimpleNamespace(topic=lambda _: view, ready_topic=lambda _: None if seen else view)

    refused = topic_changes.made_topics(links, ["t"], {}, print, partitions=1, may_exist=may_exist)

    said = [refusal.sentence for refusal in refused]
    is_fine = may_exist and not seen
    assert said == ([] if is_fine else [f"{each} ({code.name})" for each in sentences])
