"""Patterns of topics: what is taken and refused, in Kafka's words, and what is matched."""

from __future__ import annotations

import sys
from itertools import repeat

import pytest

from kbroker.coordinator.consumer_group.patterns import (
    PatternsTooSlowError,
    TooManyMatchesError,
    check_pattern,
    matching_names,
)
from kbroker.coordinator.group.timely_matches import timely_matches
from kbroker.errors import ErrorCode, KafkaError

MOST = 1 << 20  # bytes
NAMES = ["orders", "orders-eu", "payments", "__consumer_offsets"]
# As the RE2/J of Apache Kafka 4.3.1 describes them.
REFUSED = {
    "(abc": "missing closing )",
    "[a": "missing closing ]",
    "a)": "regexp/syntax: internal error",
    "a**": "invalid nested repetition operator",
    "*a": "missing argument to repetition operator",
    "a{1001}": "invalid repeat count",
    "\\": "trailing backslash at end of expression",
    "(?P<n": "invalid named capture",
    "(?=x)": "invalid or unsupported Perl syntax",
    "\\8": "invalid escape sequence",
    "[b-a]": "invalid character class range",
    "[[:foo:]]": "invalid character class range",
    "\\pX": "invalid character class range",
    "\ud800": "invalid UTF-8",
    "(.*1.*|" * 400 + ")" * 400 + "{20}": "pattern too large - compile failed",
}


def test_a_broker_without_the_library_refuses_all_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)

    with pytest.raises(KafkaError, match="needs google-re2, which is not installed") as refused:
        check_pattern("orders.*")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    with pytest.raises(KafkaError, match="needs google-re2"):
        matching_names(["orders.*"], NAMES, lambda: False, MOST)


@pytest.mark.parametrize(("pattern", "reason"), REFUSED.items(), ids=map(str, range(len(REFUSED))))
def test_what_re2_does_not_take_is_refused_in_kafkas_words(pattern: str, reason: str) -> None:
    pytest.importorskip("re2")
    with pytest.raises(KafkaError) as refused:
        check_pattern(pattern)

    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert refused.value.message == (
        f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
    )


def test_patterns_match_names_from_end_to_end() -> None:
    pytest.importorskip("re2")
    patterns = ["orders", "orders.*", "(?i)PAYMENTS", ".*(", "|".join(map(str, range(6_000)))]
    found = matching_names(patterns, NAMES, lambda: False, MOST)

    assert [sorted(found[pattern]) for pattern in patterns] == [
        ["orders"], ["orders", "orders-eu"], ["payments"], [], [],
    ]  # fmt: skip


def test_matching_ends_when_its_time_is_over() -> None:
    pytest.importorskip("re2")
    answers = iter([False, False, *repeat(True, 5)])

    with pytest.raises(PatternsTooSlowError):
        matching_names([".*"], NAMES, lambda: next(answers), MOST)


def test_patterns_that_take_too_long_are_given_up_with_a_sentence() -> None:
    pytest.importorskip("re2")
    found = timely_matches(["orders", "p.*"], NAMES, MOST)
    assert found == {"orders": {"orders"}, "p.*": {"payments"}}

    sentence = "^2 patterns were not matched with 4 topics within 0 s$"
    with pytest.raises(PatternsTooSlowError, match=sentence):
        timely_matches(["orders", "p.*"], NAMES, MOST, limit_s=0)


def test_matching_ends_when_no_batch_holds_what_was_found() -> None:
    pytest.importorskip("re2")
    patterns = [f"o.*|{number}" for number in range(1_000)]

    sentence = "^1,000 patterns match more names than fit into a batch of 100 bytes$"
    with pytest.raises(TooManyMatchesError, match=sentence):
        timely_matches(patterns, NAMES, 100)
    assert len(timely_matches(patterns[:6], NAMES, 100)) == 6
