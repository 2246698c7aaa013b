"""The short answer to a heartbeat that changes nothing is that of the long way, whatever happened."""

from __future__ import annotations

from typing import Any

import pytest

from kbroker.coordinator.consumer_group.heartbeat import Heartbeat, answer_at_rest, heartbeat
from kbroker.coordinator.group import consumer_group_requests
from tests.faults.group_simulation import HISTORIES


def test_answers_at_rest_are_those_of_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def both(step: Any, request: Any, client_id: str, client_host: str) -> Any:
        deadlines = {name: each.deadline_ms for name, each in step.attendance.sessions.items()}
        found = answer_at_rest(step, request, client_id, client_host)
        if found is None:
            now = {name: each.deadline_ms for name, each in step.attendance.sessions.items()}
            assert now == deadlines
            return None
        moved = step.attendance.sessions[request.member_id].deadline_ms
        sent = Heartbeat(
            request=request, client_id=client_id, client_host=client_host, new_member_id="new"
        )
        assert heartbeat(step, sent) == found
        assert (step.changes, step.effects) == ([], [])
        assert step.attendance.sessions[request.member_id].deadline_ms == moved
        assert step.group.last_unstored_write is None
        seen.append(request.member_epoch)
        return found

    monkeypatch.setattr(consumer_group_requests, "answer_at_rest", both)

    assert list(HISTORIES.violations(range(1, 15))) == []
    assert len(seen) > 100
