"""Rates as Kafka's SimpleRate measures them, and the lists that name what is throttled."""

from __future__ import annotations

import pytest

from kbroker.config.quota_config import QuotaConfig
from kbroker.errors import ConfigError
from kbroker.replication.replication_quota import (
    FOLLOWER_RATE,
    LEADER_RATE,
    ByteRate,
    ReplicationQuota,
    ReplicationQuotas,
)


def quota(limit: int | None = None) -> ReplicationQuota:
    made = ReplicationQuota(1)
    made.set_limit(limit)
    return made


def test_a_burst_counts_over_one_window_at_least():
    rate = ByteRate(11, 1000)

    rate.record(500, 100)

    assert rate.bytes_per_s(100) == rate.bytes_per_s(1100) == 500
    assert rate.bytes_per_s(2100) == 250


def test_what_is_older_than_all_windows_counts_no_more():
    rate = ByteRate(3, 1000)
    rate.record(900, 0)
    rate.record(300, 1500)

    assert rate.bytes_per_s(2999) == pytest.approx(1200 / 2.999)
    assert rate.bytes_per_s(3000) == 300 / 1.5
    assert rate.bytes_per_s(4500) == 0


def test_a_window_counts_while_a_part_of_it_is_recent():
    rate = ByteRate(3, 1000)
    rate.record(100, 0)
    rate.record(100, 900)

    assert rate.bytes_per_s(3800) == pytest.approx(200 / 3.8)
    assert rate.bytes_per_s(3900) == 0


def test_a_quota_is_exceeded_until_the_time_has_paid_for_the_bytes():
    throttled = quota(1000)

    throttled.record(5000, 0)

    assert throttled.is_exceeded(0)
    assert throttled.is_exceeded(4999)
    assert not throttled.is_exceeded(5000)


def test_without_a_limit_it_is_never_exceeded():
    throttled = quota()
    throttled.record(10**12, 0)

    assert not throttled.is_exceeded(0)
    throttled.set_limit(2**63 - 1)
    assert throttled.limit is None


def test_a_limit_of_zero_stops_at_the_first_byte():
    throttled = quota(0)

    assert not throttled.is_exceeded(0)
    throttled.record(1, 0)
    assert throttled.is_exceeded(0)


@pytest.mark.parametrize(
    ("replicas", "named"),
    [
        ((), []),
        (("*",), [0, 1, 2]),
        (("0:1", "1:2", "2:1"), [0, 2]),
        (("", "1:01"), [1]),
        (("0:11",), []),
    ],
)
def test_a_list_names_the_replicas_of_each_broker(replicas, named):
    throttled = quota(1)

    assert [index for index in range(3) if throttled.names("t", index, replicas)] == named


def test_a_changed_list_counts_at_once():
    throttled = quota(1)
    assert throttled.names("t", 0, ("0:1", "1:1"))

    assert not throttled.names("t", 0, ("1:1", "2:1"))
    assert throttled.names("other", 0, ("0:1",))


def test_the_brokers_rate_counts_before_that_of_the_cluster():
    quotas = ReplicationQuotas(1)

    quotas.configure({LEADER_RATE: "10", FOLLOWER_RATE: "20"}, {LEADER_RATE: "30"})
    assert (quotas.leader.limit, quotas.follower.limit) == (30, 20)

    quotas.configure({}, {})
    assert (quotas.leader.limit, quotas.follower.limit) == (None, None)


@pytest.mark.parametrize("text", ["x", "-1", ""])
def test_a_rate_that_is_none_changes_nothing(text):
    quotas = ReplicationQuotas(1)
    quotas.configure({FOLLOWER_RATE: "20"}, {})

    with pytest.raises(ConfigError):
        quotas.configure({FOLLOWER_RATE: "30"}, {LEADER_RATE: text})

    assert (quotas.leader.limit, quotas.follower.limit) == (None, 20)


def test_windows_are_those_of_the_settings():
    quotas = ReplicationQuotas(1)
    quotas.set_windows(
        QuotaConfig(replication_quota_window_num=2, replication_quota_window_size_seconds=4)
    )

    quotas.leader.record(8000, 0)
    quotas.moving.record(8000, 0)
    assert quotas.moving.bytes_per_s(0) == 8000, "it has windows of its own"

    assert quotas.leader.bytes_per_s(0) == 2000
    assert quotas.leader.bytes_per_s(7999) == pytest.approx(1000, abs=1)
    assert quotas.leader.bytes_per_s(8000) == 0
