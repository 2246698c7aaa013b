"""The examples of rules: their pages show what their generators give, and the generators' truth is
right in cases that were worked out by hand. What a job makes of them is in tests/spark.
"""

from __future__ import annotations

import json
import random
from types import ModuleType
from typing import Any

import pytest

from examples.rules.events import (
    BEGIN_MS,
    Event,
    delivered,
    json_event,
    record,
    sort_out,
    time_text,
    window_row,
)
from examples.rules.run import HERE, data_lines, load_generator

WITH_DATA = ("device-switches", "invite-fraud", "phone-regions", "earnings")
MINUTE_MS = 60_000


def rows_of(generator: ModuleType, events: list[Event], topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in generator.truth(events)[topic]]


def test_an_example_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(SystemExit, match=r"no example logs-error: there are .*, logs-errors, "):
        load_generator("logs-error")


@pytest.mark.parametrize("example", WITH_DATA)
def test_the_data_of_an_example_are_those_of_its_generator(example: str) -> None:
    written = (HERE / example / "data.jsonl").read_text(encoding="utf-8")
    assert written == data_lines(load_generator(example).events(1, 120))


@pytest.mark.parametrize("example", WITH_DATA)
def test_the_page_of_an_example_shows_events_of_its_data_and_what_comes_of_them(
    example: str,
) -> None:
    generator = load_generator(example)
    events = generator.events(1, 120)
    lines = (HERE / example / "README.md").read_text(encoding="utf-8").splitlines()
    shown = [record(None, json.loads(line)) for line in lines if line.startswith("{")]
    results = [value for found in generator.truth(events).values() for _, value in found]
    known = [event.row for event in events] + [
        json.loads(value) for value in results if value.startswith("{") and value.endswith("}")
    ]
    assert len(shown) >= 2
    assert [row for row in shown if row not in [record(None, each) for each in known]] == []


@pytest.mark.parametrize("example", WITH_DATA)
def test_every_kind_of_disorder_is_in_the_events_of_an_example(example: str) -> None:
    generator = load_generator(example)
    events = generator.events(7, 600)
    for topic in set(generator.TOPICS) - {"prefixes", "balances"}:  # a table, and a few a quarter
        own = [event for event in events if event.topic == topic]
        times = [event.time_ms for event in own if event.time_ms is not None]
        assert times != sorted(times)
        assert len(own) > len({event.value for event in own})
        truth = generator.truth(events)
        assert truth[f"{topic}-broken"]
        assert truth[f"{topic}-late"]


def test_what_is_late_and_what_is_double_goes_by_the_records_before_in_the_partition() -> None:
    def event(partition: int, second: int, name: int) -> Event:
        row = {"id": name}
        return Event("t", partition, "k", f"{name} at {second}", second * 1_000, row)

    events = [
        event(0, 100, 1),
        event(0, 90, 2),  # as late as it may be
        event(0, 89, 3),
        event(1, 50, 4),  # the other partition is not as far
        event(0, 100, 1),
        event(0, 89, 3),
        Event("t", 0, "k", "?", None),
    ]
    found = sort_out(events, 10_000, lambda each: each.row["id"])
    assert [each.row["id"] for each in found.accepted] == [1, 2, 4]
    assert [each.row["id"] for each in found.late] == [3, 3]
    assert [each.row["id"] for each in found.doubled] == [1]
    assert [each.value for each in found.broken] == ["?"]


def test_delivery_keeps_every_event() -> None:
    made = [
        json_event("t", 2, "k", {"id": n, "time": time_text(n)}, BEGIN_MS + n * 1_000)
        for n in range(100)
    ]
    arrived = delivered(random.Random(1), made, 10_000)
    whole = [event for event in arrived if event.time_ms is not None]
    assert {event.row["id"] for event in whole} == set(range(100))
    assert (len(whole), len(arrived)) == (103, 106)


def login(minute: float, device: str, account: str, number: int) -> Event:
    time_ms = BEGIN_MS + round(minute * MINUTE_MS)
    row = {"id": number, "time": time_text(time_ms), "device": device, "account": account}
    return json_event("logins", 3, device, row, time_ms)


def test_the_fourth_account_of_a_device_within_ten_minutes_is_an_alert() -> None:
    accounts = ["a", "b", "a", "c", "c", "d"]
    minutes = [0, 1, 2, 3, 4, 9.999]
    generator = load_generator("device-switches")
    events = [
        login(minute, "bad", account, number)
        for number, (minute, account) in enumerate(zip(minutes, accounts, strict=True))
    ]
    events += [login(minute, "good", account, 10 + number)
               for number, (minute, account) in enumerate([(10, "a"), (11, "b"), (12, "c"), (20, "d")])]  # fmt: skip

    assert rows_of(generator, events, "device-alerts") == [
        window_row(BEGIN_MS, 10 * MINUTE_MS) | {"device": "bad", "accounts": 4, "switches": 4}
    ]


def test_points_of_an_invitation_count_where_it_meets_its_account() -> None:
    generator = load_generator("invite-fraud")

    def events(signup_minute: int) -> list[Event]:
        found = []
        for number, inviter in enumerate(("ann", "ann", "bob")):
            place = {"device": f"phone of {inviter}", "address": f"home of {inviter}"}
            time_ms = BEGIN_MS + (40 + number) * MINUTE_MS
            row = {"id": number, "time": time_text(time_ms), "inviter": inviter, **place}
            found.append(json_event("invites", 2, inviter, row, time_ms))
            time_ms = BEGIN_MS + (signup_minute + number) * MINUTE_MS
            row = {"invite": number, "time": time_text(time_ms), "account": f"a{number}", **place}
            found.append(json_event("signups", 2, row["account"], row, time_ms))
        return found

    both = rows_of(generator, events(45), "fraud-alerts")
    assert [(row["window_start"][11:16], row["inviter"], row["score"]) for row in both] == [
        ("10:30", "ann", 6.0),
        ("10:00", "ann", 6.0),
    ]
    assert [row["window_start"][11:16] for row in rows_of(generator, events(70), "fraud-alerts")] == ["10:30"]  # fmt: skip
    assert rows_of(generator, events(95), "fraud-alerts") == []


def test_a_call_has_the_longest_prefix_of_the_table_as_it_was_before_it() -> None:
    generator = load_generator("phone-regions")

    def call(number: int, phone: str) -> Event:
        time_ms = BEGIN_MS + number
        row = {"id": number, "time": time_text(time_ms), "phone": phone, "seconds": 600}
        return json_event("calls", 3, phone, row, time_ms)

    def prefix(text: str, region: str, is_dear: bool) -> Event:
        row = {"prefix": text, "region": region, "is_dear": is_dear}
        return Event("prefixes", 0, text, json.dumps(row), None, row)

    first = [prefix("+49", "Germany", False), call(0, "+49301"), call(1, "+1"), call(2, "+49301")]
    second = [prefix("+4930", "Berlin", True), call(3, "+49301"), call(4, "+49311"), first[1]]
    events = first + second
    calls = rows_of(generator, events, "calls-with-regions")
    assert [(row["id"], row["region"]) for row in calls] == [
        (0, "Germany"),
        (1, "unknown"),
        (2, "Germany"),
        (3, "Berlin"),
        (4, "Germany"),
    ]
    assert rows_of(generator, events, "dear-calls") == [
        {"id": 3, "phone": "+49301", "region": "Berlin", "minutes": 10}
    ]


def test_the_ledger_is_compared_by_user_and_quarter() -> None:
    generator = load_generator("earnings")

    def money(topic: str, number: int, minute: float, user: str, cents: int) -> Event:
        time_ms = BEGIN_MS + round(minute * MINUTE_MS)
        row = {"id": number, "time": time_text(time_ms), "user": user, "cents": cents}
        return json_event(topic, generator.TOPICS[topic], user, row, time_ms)

    events = [
        money("earnings", 0, 1, "ann", 30),
        money("earnings", 1, 2, "ann", 12),
        money("earnings", 2, 3, "bob", 5),
        money("earnings", 3, 15, "ann", 7),
        money("balances", 0, 14.999, "ann", 42),
        money("balances", 1, 14.999, "cyd", 9),
        money("balances", 2, 29.999, "ann", 8),
    ]
    found = rows_of(generator, events, "ledger-alerts")
    assert [
        (row["window_start"][11:16], row["user"], row["earned"], row["booked"]) for row in found
    ] == [("10:00", "bob", 5, 0), ("10:00", "cyd", 0, 9), ("10:15", "ann", 7, 8)]
    sums = rows_of(generator, events, "earnings-sums")
    assert sums[0] == {"user": "ann", "cents": 49, "payments": 3, "largest": 30}
