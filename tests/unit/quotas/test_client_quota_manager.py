"""What clients use, against limits that change and among clients that share them."""

from __future__ import annotations

import gc
import random
import sys

import pytest

from kbroker.quotas import client_quota_manager
from kbroker.quotas.client_limits import ClientLimits
from kbroker.quotas.client_quota_manager import (
    IDLE_MS,
    LONGEST_KEPT,
    ClientAccount,
    ClientQuotaManager,
    MutationQuota,
    RateQuota,
)
from kbroker.quotas.quota_entity import DEFAULT, QuotaEntity
from kbroker.quotas.quota_keys import ClientQuotaType
from kbroker.quotas.rate import LONGEST_THROTTLE_MS, Windows

ANN, ANYBODY = QuotaEntity(user="ann"), QuotaEntity(user=DEFAULT)
RATE = "producer_byte_rate"


class Broker:
    """Limits, and those who count against them."""

    def __init__(self) -> None:
        self.limits = ClientLimits()
        self.manager = ClientQuotaManager(self.limits, Windows(11, 1_000))
        self.now_ms = 0.0

    def put(self, entity: QuotaEntity, **values: float) -> None:
        self.limits.put(entity, values)
        self.manager.settle()

    def account(self, user: str = "ann", client_id: str | None = "app") -> ClientAccount:
        return self.manager.account(f"User:{user}", client_id, self.now_ms)

    def produced(self, user: str = "ann", client_id: str | None = "app") -> RateQuota:
        quota = self.account(user, client_id).produce
        assert quota is not None
        return quota


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_who_has_no_limit_is_not_counted(broker: Broker) -> None:
    broker.put(ANN, consumer_byte_rate=5)
    assert broker.account().produce is None
    assert broker.account().fetch is not None
    assert broker.account("bob") == ClientAccount()
    assert list(broker.manager.quotas()) == [(ClientQuotaType.FETCH, broker.account().fetch)]


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_pauses_as_it_is_asked_stays_within_its_limit(
    broker: Broker, seed: int
) -> None:
    chance = random.Random(seed)
    broker.put(ANN, producer_byte_rate=100_000)
    sent, at_15_s = 0, 0
    while broker.now_ms < 75_000:
        size = chance.choice([1_000, 16_384, 50_000])
        broker.now_ms += chance.random() * 5 + broker.produced().use(size, broker.now_ms)
        sent += size
        if broker.now_ms < 15_000:
            at_15_s = sent
    assert (sent - at_15_s) / 60 == pytest.approx(100_000, rel=0.02)


@pytest.mark.parametrize("times", [1.1, 1.7, 3])
def test_who_is_slow_to_use_what_may_be_used_at_once_is_soon_within_its_limit(
    broker: Broker, times: float
) -> None:
    broker.put(ANN, producer_byte_rate=20_000_000)
    sent = dict.fromkeys(range(6), 0)
    while broker.now_ms < 60_000:
        sent[int(broker.now_ms // 10_000)] += 1_000_000
        pause_ms = broker.produced().use(1_000_000, broker.now_ms)
        broker.now_ms += max(pause_ms, 1_000 / (20 * times))
    assert list(sent.values())[2:] == pytest.approx([200_000_000] * 4, rel=0.01)


@pytest.mark.parametrize(
    ("limit", "used", "delay_ms"),
    [
        (100, 1_000, 0),  # within ten windows
        (100, 1_001, 10),
        (100, 2_000, 10_000),
        (1, 10**12, LONGEST_THROTTLE_MS),
        (1e-300, 1, LONGEST_THROTTLE_MS),
        (0, 1, 11_000),
        (0, 0, 0),
        (float("inf"), 10**18, 0),
    ],
)
def test_a_pause_brings_the_rate_back_to_the_limit(
    broker: Broker, limit: float, used: float, delay_ms: int
) -> None:
    broker.put(ANN, producer_byte_rate=limit)
    assert broker.produced().use(used, 0) == delay_ms


def test_what_was_used_under_a_higher_limit_counts_for_as_long_as_all_windows(
    broker: Broker,
) -> None:
    """Or half a second at 20 MB/s would bar a client for hours that may send 1 kB/s from now on."""
    broker.put(ANN, producer_byte_rate=20_000_000)
    assert broker.produced().use(210_000_000, broker.now_ms) == 500
    broker.now_ms += 100

    broker.put(ANN, producer_byte_rate=1_000)

    assert broker.produced().use(0, broker.now_ms) == 11_000
    assert broker.produced().use(100, broker.now_ms) == 11_100


def test_a_lowered_limit_does_not_cut_a_longer_debt(broker: Broker) -> None:
    broker.put(ANN, producer_byte_rate=1_000)
    assert broker.produced().use(40_000, broker.now_ms) == 30_000
    broker.put(ANN, producer_byte_rate=500)
    assert broker.produced().use(0, broker.now_ms) == 30_000


def test_a_raised_limit_pays_for_what_was_used_sooner(broker: Broker) -> None:
    broker.put(ANN, producer_byte_rate=1_000)
    assert broker.produced().use(15_000, broker.now_ms) == 5_000
    broker.now_ms += 1_000

    broker.put(ANN, producer_byte_rate=10_000)

    assert broker.produced().use(0, broker.now_ms) == 400


def test_who_could_use_all_at_once_can_use_all_of_a_raised_limit(broker: Broker) -> None:
    broker.put(ANN, producer_byte_rate=1_000)
    assert broker.produced().use(10_000, broker.now_ms) == 0
    broker.now_ms += 10_000

    broker.put(ANN, producer_byte_rate=1_000_000)

    assert broker.produced().use(10_000_000, broker.now_ms) == 0


def test_a_pause_for_time_of_the_loop_is_never_longer_than_a_window(broker: Broker) -> None:
    broker.put(ANN, request_percentage=1)
    request = broker.account().request
    assert request is not None
    assert request.use(10, 0) == 0
    assert request.use(0.5, 0) == 500
    assert request.use(5_000, 0) == 1_000
    assert request.use(0.01, 10_000) == 10  # what nobody can pause for is forgotten


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_who_waits_for_all_that_may_be_used_at_once_has_it_beside_one_that_uses_a_part(
    broker: Broker, share: float
) -> None:
    """A batch that is larger than all windows is sent to whoever could use all of them."""
    broker.put(ANN, consumer_byte_rate=100_000)
    fetch = broker.account().fetch
    assert fetch is not None
    while broker.now_ms < 60_000:
        broker.now_ms += 100
        assert fetch.use(10_000 * share, broker.now_ms) == 0
    assert fetch.is_unused(broker.now_ms + 100)

    fetch.use(500_000, broker.now_ms + 100)
    assert not fetch.is_unused(broker.now_ms + 200)


def test_what_was_not_used_after_all_is_taken_back(broker: Broker) -> None:
    broker.put(ANN, producer_byte_rate=100)
    quota = broker.produced()
    assert quota.use(5_000, 0) > 0
    quota.take_back(5_000, 0)
    assert quota.is_unused(0)
    assert quota.use(1_000, 0) == 0


def test_a_users_limit_is_shared_by_its_client_ids_and_anybodys_is_each_users_own(
    broker: Broker,
) -> None:
    broker.put(ANN, producer_byte_rate=100)
    broker.put(ANYBODY, producer_byte_rate=100)
    assert broker.produced("ann", "a") is broker.produced("ann", None)
    assert broker.produced("bob") is not broker.produced("eve")
    broker.put(QuotaEntity("ann", DEFAULT), producer_byte_rate=100)
    assert broker.produced("ann", "a") is not broker.produced("ann", "b")


def test_a_changed_limit_forgives_nothing_that_was_used_before(broker: Broker) -> None:
    broker.put(ANN, producer_byte_rate=1_000, controller_mutation_rate=1)
    before = broker.account()
    assert broker.produced().use(15_000, 0) == 5_000
    broker.put(ANN, producer_byte_rate=500, controller_mutation_rate=2)
    assert broker.account() == before
    assert broker.produced().use(1, 0) == 10_002
    broker.put(ANN)
    assert broker.account() == ClientAccount()
    broker.put(ANN, producer_byte_rate=500)
    assert broker.produced().use(1, 0) == 10_004  # nor does it help to remove it for a moment


def test_changes_are_made_while_nothing_is_owed_or_whatever_is_owed(broker: Broker) -> None:
    broker.put(ANN, controller_mutation_rate=1)
    mutations = broker.account().mutations
    assert isinstance(mutations, MutationQuota)
    assert [mutations.take_if_open(20, 0) for _ in range(3)] == [0, 9_000, 9_000]
    assert mutations.take(5, 0) == 14_000
    assert mutations.throttle_ms(0) == pytest.approx(32_000 / 3)


def test_who_was_idle_for_an_hour_is_forgotten_unless_a_connection_remembers(
    broker: Broker,
) -> None:
    broker.put(ANYBODY, producer_byte_rate=5)
    held = broker.produced("ann")
    broker.produced("bob")
    broker.now_ms = IDLE_MS
    broker.produced("eve")
    gc.collect()
    assert [quota.tags.user for _, quota in broker.manager.quotas()] == ["eve"]
    assert broker.produced("ann") is held


def test_any_number_of_client_ids_takes_a_bounded_place(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quota_manager, "KEPT_MAX", 50)
    monkeypatch.setattr(client_quota_manager, "ACCOUNTS_MAX", 30)
    broker.put(QuotaEntity(client_id=DEFAULT), producer_byte_rate=5)
    busy = broker.produced(client_id="busy")
    for number in range(300):
        broker.now_ms += 1
        broker.produced(client_id=str(number)).use(1, broker.now_ms)
        broker.produced(client_id="busy").use(1, broker.now_ms)
        assert len(list(broker.manager.quotas())) <= 50
    assert broker.produced(client_id="busy") is busy


def test_a_client_that_calls_itself_by_a_long_name_takes_no_more_place_and_is_itself(
    broker: Broker,
) -> None:
    broker.put(QuotaEntity(client_id=DEFAULT), producer_byte_rate=5)
    long, other = "x" * 32_767, "x" * 32_766 + "y"
    broker.put(QuotaEntity(client_id=other), producer_byte_rate=7)

    referred_to = sys.getrefcount(long)

    quota = broker.produced(client_id=long)

    assert len(quota.tags.client_id) == LONGEST_KEPT
    assert broker.produced(client_id=long) is quota
    assert broker.produced(client_id=other) is not quota
    assert (quota.limit, broker.produced(client_id=other).limit) == (5, 7)
    assert sys.getrefcount(long) == referred_to  # nobody keeps it
