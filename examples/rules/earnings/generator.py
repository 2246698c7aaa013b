"""Tasks, what users earn by them and what a ledger has booked, and what the rules have to make of
it.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from typing import Any

from matplotlib.figure import Figure

from examples.rules.events import (
    BEGIN_MS,
    Event,
    SortedOut,
    as_they_came,
    delivered,
    json_event,
    of_topic,
    record,
    sort_out,
    time_text,
    window_row,
)

TOPICS = {"tasks": 2, "earnings": 2, "balances": 1}
LATEST = frozenset({"task-states", "earnings-sums"})

_DELAY_MS = 30_000
_WINDOW_MS = 900_000
_USERS = tuple(f"user-{number:02}" for number in range(12))
_EVENTS_OF_TASK = 3.9  # three states, and what is earned by most


def events(seed: int, count: int) -> list[Event]:
    """About so many events: a task every 20 s, which is open, taken, and done or given up; the
    ledger errs in one of twenty balances, and knows nothing of what is lost on the way.
    """
    rng = random.Random(seed)
    made: list[Event] = []
    for number in range(max(1, round(count / _EVENTS_OF_TASK))):
        made += _task(rng, number)
    made += _balances(rng, [event for event in made if event.topic == "earnings"])
    made.sort(key=lambda event: event.time_ms or 0)
    return delivered(rng, made, _DELAY_MS)


def _task(rng: random.Random, number: int) -> list[Event]:
    user, task = rng.choice(_USERS), f"task-{number}"
    time_ms = BEGIN_MS + number * 20_000
    states = ("open", "taken", "done" if rng.random() < 0.8 else "given up")
    found = []
    for place, state in enumerate(states):
        row = {"id": number * 3 + place, "time": time_text(time_ms)}
        row |= {"user": user, "task": task, "state": state}
        found.append(json_event("tasks", TOPICS["tasks"], user, row, time_ms))
        time_ms += rng.randrange(1_000, 60_000)
    if states[-1] == "done":
        found.append(_money("earnings", number, time_ms, user, rng.randrange(100, 5_000)))
    return found


def _money(topic: str, number: int, time_ms: int, user: str, cents: int) -> Event:
    row = {"id": number, "time": time_text(time_ms), "user": user, "cents": cents}
    return json_event(topic, TOPICS[topic], user, row, time_ms)


def _balances(rng: random.Random, earnings: list[Event]) -> list[Event]:
    found = []
    for number, ((start_ms, user), cents) in enumerate(sorted(_by_window(earnings).items())):
        wrong = rng.choice((-100, 1)) if rng.random() < 0.05 else 0
        end_ms = start_ms + _WINDOW_MS - 1
        found.append(_money("balances", number, end_ms, user, cents + wrong))
    return found


def _by_window(found: list[Event]) -> dict[tuple[int, str], int]:
    """Cents by beginning and user."""
    sums: dict[tuple[int, str], int] = defaultdict(int)
    for event in found:
        assert event.time_ms is not None
        sums[event.time_ms // _WINDOW_MS * _WINDOW_MS, event.row["user"]] += event.row["cents"]
    return sums


def truth(written: list[Event]) -> dict[str, list[tuple[str | None, str]]]:
    """The records of each topic, in any order."""
    found = {topic: _sorted_out(written, topic) for topic in TOPICS}
    records = {
        "task-states": _states(found["tasks"].accepted),
        "earnings-sums": _sums(found["earnings"].accepted),
        "ledger-alerts": _alerts(found["earnings"].accepted, found["balances"].accepted),
    }
    for topic, each in found.items():
        records[f"{topic}-broken"] = as_they_came(each.broken)
        records[f"{topic}-late"] = as_they_came(each.late)
    return records


def _sorted_out(written: list[Event], topic: str) -> SortedOut:
    return sort_out(of_topic(written, topic), _DELAY_MS, lambda event: event.row["id"])


def _states(updates: list[Event]) -> list[tuple[str | None, str]]:
    """Of updates with one time the one that was written last is the newest."""
    found: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in updates:
        found[event.row["user"], event.row["task"]].append(event)
    records = []
    for (user, task), each in found.items():
        newest = sorted(each, key=lambda event: event.time_ms or 0)[-1].row
        name = {"user": user, "task": task}
        row = name | {"state": newest["state"], "since": newest["time"], "updates": len(each)}
        records.append(record(json.dumps(name, separators=(",", ":")), row))
    return records


def _sums(earnings: list[Event]) -> list[tuple[str | None, str]]:
    found: dict[str, list[int]] = defaultdict(list)
    for event in earnings:
        found[event.row["user"]].append(event.row["cents"])
    return [
        record(
            user,
            {"user": user, "cents": sum(each), "payments": len(each), "largest": max(each)},
        )
        for user, each in found.items()
    ]


def _alerts(earnings: list[Event], balances: list[Event]) -> list[tuple[str | None, str]]:
    earned, booked = _by_window(earnings), _by_window(balances)
    found = []
    for start_ms, user in sorted(earned.keys() | booked.keys()):
        row: dict[str, Any] = {
            "user": user,
            "earned": earned.get((start_ms, user), 0),
            "booked": booked.get((start_ms, user), 0),
        }
        if row["earned"] != row["booked"]:
            found.append(record(user, window_row(start_ms, _WINDOW_MS) | row))
    return found


def plot(figure: Figure, results: dict[str, list[dict[str, object]]]) -> None:
    """Sums by user, and what the ledger says otherwise."""
    sums, differences = figure.subplots(1, 2)
    cents = {str(row["user"]): float(str(row["cents"])) for row in results["earnings-sums"]}
    sums.barh(
        sorted(cents, reverse=True), [cents[user] / 100 for user in sorted(cents, reverse=True)]
    )
    sums.set_title("earned by each user")
    rows = sorted(results["ledger-alerts"], key=lambda row: str(row["window_start"]))
    off = [(float(str(row["booked"])) - float(str(row["earned"]))) / 100 for row in rows]
    differences.bar(range(len(rows)), off)
    shown = range(0, len(rows), max(1, len(rows) // 8))
    differences.set_xticks(shown, [str(rows[number]["window_start"])[11:16] for number in shown])
    differences.axhline(0, color="grey", linewidth=1)
    differences.set_title("ledger: booked less earned, by quarter")
    for axes in (sums, differences):
        axes.spines[["top", "right"]].set_visible(False)
