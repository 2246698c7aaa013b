"""Entries on their way to a reader that is slower than they come."""

from __future__ import annotations

from dataclasses import replace

from kbroker.tracing.trace_filter import TraceFilter
from kbroker.tracing.trace_reader import Taken, TraceReader
from tests.unit.tracing.test_trace_entry import entry


def test_a_slow_reader_misses_the_oldest_and_hears_how_many() -> None:
    reader = TraceReader(TraceFilter(), kept_max=2)
    entries = [replace(entry(), correlation_id=number) for number in range(5)]
    for each in entries:
        reader.add(each)

    assert reader.take() == Taken(3, tuple(entries[3:]))
    assert reader.take() == Taken(0, ())
    reader.add(entries[0])
    assert reader.take() == Taken(0, (entries[0],))
