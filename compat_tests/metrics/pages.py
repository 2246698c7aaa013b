"""Pages of metrics as both brokers show them: fetched, and read by Prometheus' own client."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 60.0  # a JVM's first page


class Shown(NamedTuple):
    """A kind of series: its name, type and the names of its labels."""

    name: str
    kind: str
    labels: tuple[str, ...]


Labels = frozenset[tuple[str, str]]
Values = Mapping[tuple[str, Labels], float]


class Page:
    """The series of one page, or of those of several brokers, whose values are added up."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.shown: set[Shown] = set()
        self.values: dict[tuple[str, Labels], float] = {}
        for text in texts:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = tuple(sorted(sample.labels))
                    self.shown.add(Shown(sample.name, family.type, labels))
                    key = sample.name, frozenset(sample.labels.items())
                    self.values[key] = self.values.get(key, 0.0) + sample.value

    def value(self, name: str, **labels: str) -> float:
        """The sum of the series of that name which have these labels, among others."""
        wanted = labels.items()
        return sum(
            value for (each, of), value in self.values.items() if each == name and wanted <= set(of)
        )


def fetched(address: str, path: str = "/metrics") -> str:
    """The text of a page, in Prometheus' older format."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=TIMEOUT_S) as answer:
        return answer.read().decode()
