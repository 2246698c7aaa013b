"""Calls, and a table of prefixes that changes between them: each call gets the region that the
table had when it was written.
"""

from __future__ import annotations

import json
import random
from typing import Any

from matplotlib.figure import Figure

from examples.rules.events import (
    BEGIN_MS,
    Event,
    as_they_came,
    delivered,
    json_event,
    of_topic,
    record,
    sort_out,
    time_text,
)

TOPICS = {"calls": 3, "prefixes": 1}
TABLES = frozenset({"prefixes"})
LATEST: frozenset[str] = frozenset()

_DELAY_MS = 60_000
_LONG_S = 600
_FIRST = (
    ("+1", "North America", False),
    ("+1416", "Toronto", False),
    ("+43", "Austria", False),
    ("+431", "Vienna", False),
    ("+44", "United Kingdom", False),
    ("+49", "Germany", False),
    ("+4930", "Berlin", False),
    ("+4989", "Munich", False),
    ("+881", "satellites", True),
)
_SECOND = (
    ("+4420", "London", False),  # taken from a shorter one
    ("+4989", "Bavaria", False),  # another name
    ("+88216", "ships", True),
    ("+7", "Russia", True),  # was unknown
)
_THIRD = (("+1", "America", True), ("+881", "satellites", False))
_STARTS = ("+1", "+1416", "+43", "+431", "+44", "+4420", "+49", "+4930", "+4989", "+881", "+88216",
           "+7", "+999")  # fmt: skip


def events(seed: int, count: int) -> list[Event]:
    """So many calls, one every 10 s; the table is there before the first, and changes after a half
    and after three quarters of them.
    """
    rng = random.Random(seed)
    calls = delivered(rng, [_call(rng, number) for number in range(count)], _DELAY_MS)
    half, late = len(calls) // 2, len(calls) * 3 // 4
    return [
        *map(_prefix, _FIRST), *calls[:half],
        *map(_prefix, _SECOND), *calls[half:late],
        *map(_prefix, _THIRD), *calls[late:],
    ]  # fmt: skip


def _call(rng: random.Random, number: int) -> Event:
    time_ms = BEGIN_MS + number * 10_000 + rng.randrange(10_000)
    phone = rng.choice(_STARTS) + "".join(rng.choices("0123456789", k=7))
    seconds = rng.randrange(1_200)
    row = {"id": number, "time": time_text(time_ms), "phone": phone, "seconds": seconds}
    return json_event("calls", TOPICS["calls"], phone, row, time_ms)


def _prefix(line: tuple[str, str, bool]) -> Event:
    row = dict(zip(("prefix", "region", "is_dear"), line, strict=True))
    return Event("prefixes", 0, line[0], json.dumps(row), None, row)


def truth(written: list[Event]) -> dict[str, list[tuple[str | None, str]]]:
    """The records of each topic, in any order."""
    found = sort_out(of_topic(written, "calls"), _DELAY_MS, lambda event: event.row["id"])
    rows = _rows_by_id(written)
    accepted = [rows[event.row["id"]] for event in found.accepted]
    dear = [row for row in accepted if row["is_dear"] and row["seconds"] >= _LONG_S]
    return {
        "calls-with-regions": [record(row["region"], row) for row in accepted],
        "dear-calls": [
            record(
                row["phone"],
                {"id": row["id"], "phone": row["phone"], "region": row["region"]}
                | {"minutes": row["seconds"] // 60},
            )
            for row in dear
        ],
        "calls-broken": as_they_came(found.broken),
        "calls-late": as_they_came(found.late),
    }


def _rows_by_id(written: list[Event]) -> dict[int, dict[str, Any]]:
    """Each call as the table was when it was written first."""
    table: dict[str, dict[str, Any]] = {}
    found: dict[int, dict[str, Any]] = {}
    for event in written:
        if event.topic == "prefixes":
            table[event.key] = event.row
        elif event.time_ms is not None:
            fitting = [prefix for prefix in table if event.row["phone"].startswith(prefix)]
            chosen = table.get(max(fitting, key=len, default=""), {})
            region, is_dear = chosen.get("region", "unknown"), chosen.get("is_dear", False)
            found.setdefault(event.row["id"], event.row | {"region": region, "is_dear": is_dear})
    return found


def plot(figure: Figure, results: dict[str, list[dict[str, object]]]) -> None:
    """Calls by region, over time."""
    axes = figure.subplots()
    rows = results["calls-with-regions"]
    regions = sorted({str(row["region"]) for row in rows}, reverse=True)
    begin_s = BEGIN_MS / 1_000
    for number, region in enumerate(regions):
        own = [row for row in rows if row["region"] == region]
        at = [_seconds(str(row["time"])) - begin_s for row in own]
        axes.plot([each / 60 for each in at], [number] * len(at), "|", markersize=10)
    axes.set_yticks(range(len(regions)), regions)
    axes.set_xlabel("minutes")
    axes.set_title("calls by region: the table changes after a half and after three quarters")
    axes.spines[["top", "right"]].set_visible(False)


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()
