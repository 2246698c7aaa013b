"""Filters: which requests they let through, and which queries say nothing sensible."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kbroker.tracing.trace_filter import PATTERNS_MAX, TraceFilter
from tests.unit.tracing.test_trace_entry import entry

CLIENT = ("Fetch", "app-1", "10.0.0.7", 50_000)


@pytest.mark.parametrize(
    ("query", "is_wanted"),
    [
        ({}, True),
        ({"api": ["fetch"]}, True),
        ({"api": ["Produce"]}, False),
        ({"api": ["Produce", "Fetch"]}, True),
        ({"client_id": ["app-*"]}, True),
        ({"client_id": ["app"]}, False),
        ({"address": ["10.0.0.7"]}, True),
        ({"address": ["10.0.0.7:50000"]}, True),
        ({"address": ["10.0.0.7:50001"]}, False),
        ({"api": ["fetch"], "client_id": ["other"]}, False),
    ],
)
def test_who_asks_is_looked_at_before_the_answer(
    query: Mapping[str, list[str]], is_wanted: bool
) -> None:
    assert TraceFilter.of(query).may_match(*CLIENT) is is_wanted


def test_a_client_without_an_id_has_an_empty_one() -> None:
    assert TraceFilter.of({"client_id": [""]}).may_match("Fetch", None, "h", 1)
    assert not TraceFilter.of({"client_id": ["?*"]}).may_match("Fetch", None, "h", 1)


@pytest.mark.parametrize("address", ["::1", "[::1]:1", "[::1]*", "::?"])
def test_an_address_of_version_6_may_have_brackets(address: str) -> None:
    wanted = TraceFilter.of({"address": [address]})

    assert wanted.may_match("Fetch", None, "::1", 1)
    assert not wanted.may_match("Fetch", None, "::12", 2)


@pytest.mark.parametrize(
    ("query", "codes", "is_wanted"),
    [
        ({"topic": ["orders"]}, set(), True),
        ({"topic": ["ord*"]}, set(), True),
        ({"topic": ["payments"]}, set(), False),
        ({"code": ["not_leader_or_follower"]}, {"NOT_LEADER_OR_FOLLOWER"}, True),
        ({"code": ["6"]}, {"NOT_LEADER_OR_FOLLOWER"}, True),
        ({"code": ["6"]}, set(), False),
        ({"code": ["*"]}, set(), False),
        ({"code": ["*"]}, {"NOT_COORDINATOR"}, True),
        ({"code": ["none"]}, set(), True),
        ({"code": ["none"]}, {"NOT_COORDINATOR"}, False),
        ({"slower_than_ms": ["1.2"]}, set(), True),
        ({"slower_than_ms": ["1.3"]}, set(), False),
        ({"topic": ["orders"], "code": ["*"]}, set(), False),
    ],
)
def test_the_rest_is_looked_at_once_it_is_answered(
    query: Mapping[str, list[str]], codes: set[str], is_wanted: bool
) -> None:
    assert TraceFilter.of(query).matches(entry(), ["orders", "a"], codes) is is_wanted


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"clientid": ["a"]}, "no such filter: 'clientid'; there are client_id, address, api, "),
        ({"code": ["NOT_LEADER"]}, "there is no error code 'NOT_LEADER'"),
        ({"code": ["9999"]}, "there is no error code 9999"),
        ({"slower_than_ms": ["soon"]}, "slower_than_ms is a number of milliseconds, not 'soon'"),
        ({"slower_than_ms": ["nan"]}, "slower_than_ms is a number of milliseconds, not 'nan'"),
        ({"topic": ["t"] * (PATTERNS_MAX + 1)}, "topic: at most 50 patterns of 300 characters"),
        ({"topic": ["t" * 301]}, "topic: at most 50 patterns of 300 characters"),
    ],
)
def test_a_filter_that_says_nothing_sensible_is_refused(
    query: Mapping[str, list[str]], sentence: str
) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  its sentence is compared
        TraceFilter.of(query)
    assert str(refused.value).startswith(sentence)
