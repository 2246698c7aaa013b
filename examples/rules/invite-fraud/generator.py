"""Invitations and the accounts that come of them, and the inviters that the rules have to name."""

from __future__ import annotations

import random
from collections import defaultdict

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
    window_row,
    window_starts,
)
from examples.rules.plots import lines_by_window

TOPICS = {"invites": 2, "signups": 2}
LATEST: frozenset[str] = frozenset()

_DELAY_MS = 60_000
_WINDOW_MS, _SLIDE_MS = 3_600_000, 1_800_000
_MANY, _MANY_POINTS = 10, 3.0
_THRESHOLD = 6
_PHASE_MS = 5_400_000
_CHANCES = {"cheat": (0.5, 0.7), "shop": (0.0, 0.05), "user": (0.02, 0.15)}  # same device, address


def events(seed: int, count: int) -> list[Event]:
    """So many events: invitations, one every 20 s, and within half an hour the accounts of four in
    five. For one and a half hours each, a cheat or a shop that hands out many invitations is busy.
    """
    rng = random.Random(seed)
    made: list[Event] = []
    for number in range(count * 5 // 9):
        invite = _invite(rng, number)
        made.append(invite)
        if rng.random() < 0.8:
            made.append(_signup(rng, invite))
    made.sort(key=lambda event: event.time_ms or 0)
    return delivered(rng, made, _DELAY_MS)


def _invite(rng: random.Random, number: int) -> Event:
    time_ms = BEGIN_MS + number * 20_000 + rng.randrange(20_000)
    inviter = f"user-{rng.randrange(60)}"
    if rng.random() < 0.2:
        busy = (time_ms - BEGIN_MS) // _PHASE_MS
        inviter = f"shop-{busy}" if busy % 3 == 2 else f"cheat-{busy}"
    row = {
        "id": number,
        "time": time_text(time_ms),
        "inviter": inviter,
        "device": f"phone of {inviter}",
        "address": f"home of {inviter}",
    }
    return json_event("invites", TOPICS["invites"], inviter, row, time_ms)


def _signup(rng: random.Random, invite: Event) -> Event:
    assert invite.time_ms is not None
    row = invite.row
    time_ms = invite.time_ms + rng.randrange(1_000, 1_800_000)
    account = f"account-{row['id']}"
    chances = _CHANCES[row["inviter"].partition("-")[0]]
    same_device, same_address = (rng.random() < chance for chance in chances)
    signup = {
        "invite": row["id"],
        "time": time_text(time_ms),
        "account": account,
        "device": row["device"] if same_device else f"phone of {account}",
        "address": row["address"] if same_address else f"home of {account}",
    }
    return json_event("signups", TOPICS["signups"], account, signup, time_ms)


def truth(written: list[Event]) -> dict[str, list[tuple[str | None, str]]]:
    """The records of each topic, in any order."""
    invites = sort_out(of_topic(written, "invites"), _DELAY_MS, lambda event: event.row["id"])
    signups = sort_out(of_topic(written, "signups"), _DELAY_MS, lambda event: event.row["account"])
    return {
        "fraud-alerts": _alerts(invites.accepted, signups.accepted),
        "invites-broken": as_they_came(invites.broken),
        "invites-late": as_they_came(invites.late),
        "signups-broken": as_they_came(signups.broken),
        "signups-late": as_they_came(signups.late),
    }


def _alerts(invites: list[Event], signups: list[Event]) -> list[tuple[str | None, str]]:
    points: dict[tuple[int, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for event in invites:
        for start_ms in _starts(event):
            counts[start_ms, event.row["inviter"]] += 1
    for place, count in counts.items():
        if count >= _MANY:
            points[place]["many_invites"] = _MANY_POINTS
    invite_of = {event.row["id"]: event for event in invites}
    for signup in signups:
        invite = invite_of.get(signup.row["invite"])
        if invite is None:
            continue
        for start_ms in set(_starts(signup)) & set(_starts(invite)):
            found = points[start_ms, invite.row["inviter"]]
            if signup.row["device"] == invite.row["device"]:
                found["same_device"] += 2
            if signup.row["address"] == invite.row["address"]:
                found["same_address"] += 1
    return [
        record(
            inviter,
            window_row(start_ms, _WINDOW_MS)
            | {"inviter": inviter, "score": sum(found.values()), "rules": sorted(found)},
        )
        for (start_ms, inviter), found in points.items()
        if sum(found.values()) >= _THRESHOLD
    ]


def _starts(event: Event) -> range:
    assert event.time_ms is not None
    return window_starts(event.time_ms, _WINDOW_MS, _SLIDE_MS)


def plot(figure: Figure, results: dict[str, list[dict[str, object]]]) -> None:
    """Scores by inviter and window."""
    axes = figure.subplots()
    lines_by_window(
        axes, results["fraud-alerts"], key="inviter", value="score", threshold=_THRESHOLD
    )
    axes.set_title("inviters with 6 points or more in an hour, by the beginning of the hour")
