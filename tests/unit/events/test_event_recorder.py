"""What the log has of events, and what it leaves out."""

from __future__ import annotations

import logging

import pytest

from kbroker.events.event_recorder import GROUPS, LINES_EACH, EventRecorder
from kbroker.events.group_events import CoordinatorMoved
from kbroker.line_fields import ATTRIBUTE
from tests.fakes.running.virtual_time import VirtualTime


def moved(generation: int, group: str = "g") -> CoordinatorMoved:
    return CoordinatorMoved(group=group, generation_id=generation, members=1, is_here=True)


def test_an_event_is_a_line_with_fields_and_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    recorder = EventRecorder(VirtualTime())

    event = moved(1)

    with caplog.at_level(logging.INFO):
        recorder.note(event)

    (line,) = caplog.records
    assert (line.name, line.message) == (GROUPS, event.sentence())
    assert getattr(line, ATTRIBUTE) == {
        "event": "coordinator_moved",
        "cause": "loaded",
        "group": "g",
        "generation": 1,
        "members": 1,
    }
    assert [noted.event for noted in recorder.of_group("g")] == [event]
    assert [noted.event for noted in recorder.recent()] == [event]


def test_events_are_kept_while_the_log_does_not_want_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    recorder = EventRecorder(VirtualTime())

    with caplog.at_level(logging.WARNING):
        recorder.note(moved(1))

    assert caplog.records == []
    assert len(recorder.of_group("g")) == 1


def test_very_many_events_in_a_minute_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    time = VirtualTime()
    recorder = EventRecorder(time)

    with caplog.at_level(logging.INFO):
        for number in range(LINES_EACH + 7):
            recorder.note(moved(number))
        recorder.note(moved(0))
        time.advance(60_000)
        recorder.note(moved(1_000))

    assert len(caplog.records) == LINES_EACH + 1
    assert caplog.messages[-1].endswith("(generation 1000); similar lines left out: 8")
