"""Rates and buckets, beside naive ones that keep every sample, and beside Kafka's own numbers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest

from kbroker.quotas.rate import LONGEST_THROTTLE_MS, SampledRate, TokenBucket, Windows, rounded_ms

WINDOWS = Windows(11, 1_000)


@dataclass
class Sample:
    start: float
    last: float
    value: float = 0


class NaiveRate:
    """Looks at every sample each time, as Kafka's Rate does."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.samples: list[Sample] = []
        self.at = 0

    def record(self, value: float, now: float) -> None:
        if not self.samples:
            self.samples.append(Sample(now, now))
        if now - self.samples[self.at].start >= self.windows.length_ms:
            self.at = (self.at + 1) % (self.windows.count + 1)
            if self.at == len(self.samples):
                self.samples.append(Sample(now, now))
            self.samples[self.at] = Sample(now, now)
        self.samples[self.at].value += value
        self.samples[self.at].last = now

    def measure(self, now: float) -> tuple[float, float]:
        length = self.windows.length_ms
        if not self.samples:
            self.samples.append(Sample(now, now))
        for at, sample in enumerate(self.samples):
            if now - sample.last >= length * self.windows.count:
                self.samples[at] = Sample(now, now)
        elapsed = now - min(sample.start for sample in self.samples)
        full, least = int(elapsed / length), self.windows.count - 1
        if full < least:
            elapsed += (least - full) * length
        return sum(sample.value for sample in self.samples), max(elapsed, 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_rate_is_that_of_a_naive_model_at_every_moment(seed: int) -> None:
    chance = random.Random(seed)
    windows = Windows(chance.choice([1, 2, 3, 11]), chance.choice([1_000, 3_000]))
    rate, model = SampledRate(windows), NaiveRate(windows)
    now = chance.random() * 1_000
    for _ in range(1_500):
        now += chance.choice([0, 1, 17.25, 400, 999, 1_000, 2_500, chance.random() * 30_000])
        if chance.random() < 0.6:
            value = chance.choice([1, 100, -40, 16_384])
            rate.record(value, now)
            model.record(value, now)
        if chance.random() < 0.8:
            total, window_ms = model.measure(now)
            assert (rate.window_ms(now), rate.total) == (window_ms, total)


@pytest.mark.parametrize(
    ("after_ms", "window_ms"),
    [(0, 10_000), (500, 10_500), (999, 10_999), (1_000, 10_000), (9_999, 10_999), (10_500, 10_500)],
)
def test_a_young_rate_stands_for_all_windows_but_one(after_ms: int, window_ms: int) -> None:
    rate = SampledRate(WINDOWS)
    rate.record(50_000, 700)
    assert rate.window_ms(700 + after_ms) == window_ms
    assert rate.per_s(700 + after_ms) == 50_000_000 / window_ms


def test_what_was_counted_is_forgotten_after_all_windows() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(5, 0)
    assert rate.per_s(10_999) > 0
    assert rate.per_s(11_000) == 0
    assert SampledRate(Windows(1, 1_000)).per_s(0) == 0


def test_fractions_leave_no_rest() -> None:
    rate = SampledRate(WINDOWS)
    for number in range(1_000):
        rate.record(0.1, number * 50)
    assert rate.per_s(1_000_000) == 0


def test_a_bucket_lets_a_burst_through_and_then_waits_for_its_debt() -> None:
    bucket = TokenBucket(Windows(100, 1_000), 5, now_ms=0)  # the example of KIP-599
    bucket.take(560, 0)
    assert bucket.tokens(0) == -60
    assert bucket.throttle_ms(0) == 12_000
    assert bucket.throttle_ms(11_999) == 1
    assert bucket.throttle_ms(12_000) == 0


def test_a_bucket_is_never_fuller_than_all_windows_bring_at_the_rate_of_the_moment() -> None:
    bucket = TokenBucket(WINDOWS, 2, now_ms=0)
    assert bucket.tokens(1e9) == 22
    bucket.set_limit(1)
    assert bucket.tokens(1e9) == 11
    bucket.take(-100, 1e9)
    assert bucket.tokens(1e9) == 11


@pytest.mark.parametrize("limit", [0.0, 1e-300, math.inf])
def test_a_bucket_has_an_answer_for_the_strangest_limits(limit: float) -> None:
    bucket = TokenBucket(WINDOWS, limit, now_ms=0)
    bucket.take(1, 5)
    expected = {0.0: 11_000, 1e-300: LONGEST_THROTTLE_MS, math.inf: 0}
    assert bucket.throttle_ms(10) == expected[limit]


def test_delays_are_rounded_as_java_does_and_fit_into_an_answer() -> None:
    assert [rounded_ms(delay) for delay in (0.4, 0.5, 1.5, 2.4, 1e300, math.inf)] == [
        0, 1, 2, 2, LONGEST_THROTTLE_MS, LONGEST_THROTTLE_MS,
    ]  # fmt: skip
