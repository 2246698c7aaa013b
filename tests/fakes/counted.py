"""The values of a registry of counters, by names as short as in a test."""

from __future__ import annotations

from kbroker.counters import CounterRegistry, Value


def counted(counters: CounterRegistry, name: str, tags: int = 0) -> dict[tuple[str, ...], Value]:
    """The values under a name of things with so many tags, by these."""
    return {
        found: values[place]
        for table, found, values in filter(None, counters.samples())
        for place, metric in enumerate(table.metrics)
        if metric.name.name == name and len(found) == tags
    }
