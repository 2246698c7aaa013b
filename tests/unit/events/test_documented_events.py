"""The page that lists events and causes has all of them, and no other."""

from __future__ import annotations

import re

from kbroker.events.consumer_group_events import EpochCause, FencingCause
from kbroker.events.group_events import RebalanceCause, RemovalCause
from kbroker.events.partition_events import IsrCause, LeaderCause
from kbroker.events.producer_events import FenceCause
from tests.docs.pages import section, text_of

CAUSES = {
    "rebalance": RebalanceCause,
    "member_expired": RemovalCause,
    "group_epoch": EpochCause,
    "member_fenced": FencingCause,
    "leader_changed": LeaderCause,
    "isr_shrunk": IsrCause,
    "producer_fenced": FenceCause,
}


def test_every_cause_is_on_the_page() -> None:
    rows = {
        re.findall(r"`(\w+)`", row)[0]: set(re.findall(r"`(\w+)`", row.split("|")[2]))
        for row in section(text_of("troubleshooting"), "### Why something happened").splitlines()
        if row.startswith("| `")
    }

    for event, causes in CAUSES.items():
        assert rows[event] == {cause.name.lower() for cause in causes}
