"""What an answer lacks, in sentences."""

from __future__ import annotations

import pytest

from kbroker.client.client_error import ClientError
from kbroker.console.gaps import Gaps
from kbroker.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            KafkaError(ErrorCode.UNSUPPORTED_VERSION, "b:1 serves none"),
            "sizes are not known: the broker is too old to say it (b:1 serves none)",
        ),
        (
            KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            "sizes are not known: this user may not see it (CLUSTER_AUTHORIZATION_FAILED)",
        ),
        (ConnectionResetError("b:1: gone"), "sizes are not known: b:1: gone"),
        (ClientError("nobody leads it"), "sizes are not known: nobody leads it"),
    ],
)
def test_an_error_becomes_a_sentence(error: Exception, sentence: str) -> None:
    gaps = Gaps()

    with gaps.around("sizes"):
        raise error

    assert gaps.sentences() == (sentence,)


def test_a_bug_is_not_a_gap() -> None:
    with pytest.raises(KeyError), Gaps().around("sizes"):
        raise KeyError("x")


def test_sentences_come_once_and_many_are_counted() -> None:
    gaps = Gaps()

    for number in range(30):
        gaps.tell(f"sentence {number}")
        gaps.tell("sentence 0")

    assert gaps.sentences()[0] == "sentence 0"
    assert gaps.sentences()[-1] == "and 10 more of the kind"
    assert len(gaps.sentences()) == 21


def test_silent_brokers_are_named_in_order() -> None:
    gaps = Gaps()

    gaps.tell_silent({2: OSError("gone"), 1: TimeoutError("late")})

    assert gaps.sentences() == (
        "broker 1 gives no figures: late",
        "broker 2 gives no figures: gone",
    )
