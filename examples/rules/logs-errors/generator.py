"""Log lines of five services, and what the rules have to make of them."""

from __future__ import annotations

import random
from collections import defaultdict

from matplotlib.figure import Figure

from examples.rules.events import (
    BEGIN_MS,
    Event,
    as_they_came,
    partition_of,
    record,
    sort_out,
    time_text,
)

TOPICS = {"logs": 2}
LATEST: frozenset[str] = frozenset()

_SERVICES = ("cart", "checkout", "mail", "search", "stock")
_WRONG = ("bank does not answer", "no stock", "timeout after 3 s", "disk is full")
_DELAY_MS = 10_000
_WINDOW_MS = 60_000
_LEAST = 5


def events(seed: int, count: int) -> list[Event]:
    """So many lines, 5 a second: some a few seconds late, some far too late, some twice, some that
    are no line of a log; now and then a service fails for a minute.
    """
    rng = random.Random(seed)
    found: list[Event] = []
    for number in range(count):
        service = rng.choice(_SERVICES)
        time_ms = BEGIN_MS + number * 200
        failing = _SERVICES[time_ms // _WINDOW_MS * 7 % 11 % len(_SERVICES)]
        chance = rng.random()
        if chance < 0.05:
            time_ms -= rng.randrange(4_000)
        elif chance < 0.06:
            time_ms -= 60_000 + rng.randrange(60_000)
        is_error = rng.random() < (0.5 if service == failing else 0.03)
        found.append(_line(number, max(time_ms, BEGIN_MS), service, is_error, rng))
        if chance > 0.97:
            found.append(found[-1])
        elif chance > 0.96:
            found.append(_event(service, "  at Bank.pay(Bank.java:17)", None, {}))
    return found


def _line(number: int, time_ms: int, service: str, is_error: bool, rng: random.Random) -> Event:
    level = "ERROR" if is_error else "INFO"
    message = rng.choice(_WRONG) if is_error else f"request {rng.randrange(1_000)} served"
    row = {
        "time": time_text(time_ms),
        "level": level,
        "service": service,
        "id": number,
        "message": message,
    }
    return _event(service, " ".join(map(str, row.values())), time_ms, row)


def _event(service: str, text: str, time_ms: int | None, row: dict[str, object]) -> Event:
    partition = partition_of(service, TOPICS["logs"])
    return Event("logs", partition, service, text, time_ms, row)


def truth(written: list[Event]) -> dict[str, list[tuple[str | None, str]]]:
    """The records of each topic, in any order."""
    found = sort_out(written, _DELAY_MS, lambda event: event.row["id"])
    messages: dict[tuple[int, str], list[str]] = defaultdict(list)
    for event in found.accepted:
        if event.row["level"] == "ERROR":
            assert event.time_ms is not None
            start_ms = event.time_ms // _WINDOW_MS * _WINDOW_MS
            messages[start_ms, event.row["service"]].append(event.row["message"])
    errors = [
        record(
            service,
            {
                "window_start": time_text(start_ms),
                "window_end": time_text(start_ms + _WINDOW_MS),
                "service": service,
                "errors": len(said),
                "messages": len(set(said)),
            },
        )
        for (start_ms, service), said in messages.items()
        if len(said) >= _LEAST
    ]
    return {
        "log-lines": [record(event.row["service"], event.row) for event in found.accepted],
        "errors": errors,
        "logs-broken": as_they_came(found.broken),
        "logs-late": as_they_came(found.late),
    }


def plot(figure: Figure, results: dict[str, list[dict[str, object]]]) -> None:
    """Errors by service and minute."""
    axes = figure.subplots()
    rows = results["errors"]
    minutes = sorted({str(row["window_start"]) for row in rows})
    bottom = [0.0] * len(minutes)
    for service in _SERVICES:
        heights = [
            sum(
                float(str(row["errors"]))
                for row in rows
                if row["window_start"] == minute and row["service"] == service
            )
            for minute in minutes
        ]
        axes.bar([minute[11:16] for minute in minutes], heights, bottom=bottom, label=service)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set_title("minutes with 5 errors of a service or more")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=len(_SERVICES))
