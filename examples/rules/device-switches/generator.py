"""Logins on devices, some of which change hands, and the devices that the rules have to name."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

from matplotlib.figure import Figure

from examples.rules.events import (
    BEGIN_MS,
    Event,
    as_they_came,
    delivered,
    json_event,
    record,
    sort_out,
    time_text,
    window_row,
    window_starts,
)
from examples.rules.plots import lines_by_window

TOPICS = {"logins": 3}
LATEST: frozenset[str] = frozenset()

_DELAY_MS = 30_000
_WINDOW_MS, _SLIDE_MS = 600_000, 300_000
_MOST = 3  # accounts of one device
_PHASE_MS = 1_200_000


def events(seed: int, count: int) -> list[Event]:
    """So many logins, one every 5 s. A device has up to 3 accounts; a few devices are busy for 20
    minutes with accounts that were bought.
    """
    rng = random.Random(seed)
    return delivered(rng, [_login(rng, number) for number in range(count)], _DELAY_MS)


def _login(rng: random.Random, number: int) -> Event:
    time_ms = BEGIN_MS + number * 5_000 + rng.randrange(5_000)
    if rng.random() < 0.2:
        device = f"farm-{(time_ms - BEGIN_MS) // _PHASE_MS % 4}"
        account = f"bought-{rng.randrange(50)}"
    else:
        device = f"phone-{rng.randrange(30)}"
        account = f"{device}-{rng.randrange(_MOST)}"
    row = {"id": number, "time": time_text(time_ms), "device": device, "account": account}
    return json_event("logins", TOPICS["logins"], device, row, time_ms)


def truth(written: list[Event]) -> dict[str, list[tuple[str | None, str]]]:
    """The records of each topic, in any order."""
    found = sort_out(written, _DELAY_MS, lambda event: event.row["id"])
    logins: dict[tuple[int, str], list[tuple[int, int, str]]] = defaultdict(list)
    for event in found.accepted:
        assert event.time_ms is not None
        row = event.row
        for start_ms in window_starts(event.time_ms, _WINDOW_MS, _SLIDE_MS):
            logins[start_ms, row["device"]].append((event.time_ms, row["id"], row["account"]))
    alerts = []
    for (start_ms, device), each in logins.items():
        accounts = [account for _, _, account in sorted(each)]
        if len(set(accounts)) > _MOST:
            alert = {
                "device": device,
                "accounts": len(set(accounts)),
                "switches": sum(before != after for before, after in pairwise(accounts)),
            }
            alerts.append(record(device, window_row(start_ms, _WINDOW_MS) | alert))
    return {
        "device-alerts": alerts,
        "logins-broken": as_they_came(found.broken),
        "logins-late": as_they_came(found.late),
    }


def plot(figure: Figure, results: dict[str, list[dict[str, object]]]) -> None:
    """Accounts by device and window."""
    axes = figure.subplots()
    lines_by_window(axes, results["device-alerts"], key="device", value="accounts", threshold=_MOST)
    axes.set_title(
        "devices with more than 3 accounts in 10 minutes, by the beginning of the window"
    )
