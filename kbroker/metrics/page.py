"""A page of metrics: samples as text in one of the two formats that Prometheus reads.

Pure. Law: every line is written by plain formatting, a microsecond each: the text of the labels is
made once for a row of a table, and what stands before and behind it once for a table. A family
stands in one piece, and names and labels are never what a client has sent: only values of labels
are, with quotes, backslashes and line feeds escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kbroker.counters import Histogram, Kind, Metric, Sample, Table, Value
from kbroker.metrics.dialect import Dialect, Part, Place
from kbroker.metrics.histograms import buckets, quantiles_ms


class Format(NamedTuple):
    """A format of the page."""

    content_type: str
    is_open: bool  # OpenMetrics


OPEN_METRICS = Format("application/openmetrics-text; version=1.0.0; charset=utf-8", True)
TEXT = Format("text/plain; version=0.0.4; charset=utf-8", False)

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})

Append = Callable[[str], None]


class _Family:
    """The lines of one family."""

    __slots__ = ("help", "kind", "lines", "name")

    def __init__(self, name: str, kind: Kind, text: str) -> None:
        self.name = name
        self.kind = kind
        self.help = text
        self.lines: list[str] = []

    def text(self, is_open: bool) -> str:
        """The family as it stands on the page."""
        name = self.name
        if self.kind is Kind.COUNTER and not is_open:
            name += "_total"
        return f"# HELP {name} {self.help}\n# TYPE {name} {self.kind.value}\n{''.join(self.lines)}"


class _Plan(NamedTuple):
    """The places of one table that have the same labels."""

    labels: str  # to be filled with the values of the tags
    shown: tuple[int, ...]  # the tags that are shown
    values: tuple[tuple[Append, str, int], ...]  # how to append, name, number of the metric
    histograms: tuple[tuple[Append, Place, int], ...]


class Page:
    """The text of samples, which are added one by one."""

    def __init__(self, dialect: Dialect, page_format: Format) -> None:
        self._dialect = dialect
        self._format = page_format
        self._families: dict[str, _Family] = {}
        self._plans: dict[tuple[tuple[Metric, ...], tuple[str, ...]], tuple[_Plan, ...]] = {}
        self._table: Table | None = None
        self._of_table: tuple[_Plan, ...] = ()

    def add(self, samples: Iterable[Sample | None]) -> None:
        """Add the lines of these samples."""
        for sample in samples:
            if sample is None:
                continue
            table, tags, values = sample
            if table is not self._table:
                self._table, self._of_table = table, self._planned(table)
            for plan in self._of_table:
                labels = ""
                if plan.labels:
                    labels = plan.labels % _escaped(tags, plan.shown)
                for append, name, number in plan.values:
                    append(f"{name}{labels} {values[number]}\n")
                for append, place, number in plan.histograms:
                    _add_histogram(append, place, labels, values[number])

    def parts(self) -> Iterator[str]:
        """The page in pieces, a family each; the page has none of them afterwards."""
        is_open, families = self._format.is_open, self._families
        self._plans.clear()  # they know the lines
        self._table, self._of_table = None, ()
        for name in list(families):
            family = families.pop(name)  # as large as the text of its lines
            if family.lines:
                yield family.text(is_open)
        if is_open:
            yield "# EOF\n"

    def _planned(self, table: Table) -> tuple[_Plan, ...]:
        key = table.metrics, table.tags
        plans = self._plans.get(key)
        if plans is None:
            plans = self._plans[key] = tuple(self._plans_of(*key))
        return plans

    def _plans_of(self, metrics: tuple[Metric, ...], tags: tuple[str, ...]) -> Iterator[_Plan]:
        by_labels: dict[tuple[str, tuple[int, ...]], list[tuple[Place, int]]] = {}
        for number, metric in enumerate(metrics):
            for place in self._dialect(metric, tags):
                family = self._families.get(place.family)
                if family is None:
                    text = f"{metric.name}".translate(_ESCAPES)
                    family = _Family(place.family, place.kind, text)
                    self._families[place.family] = family
                by_labels.setdefault(_labels_of(place), []).append((place, number))
        for (labels, shown), places in by_labels.items():
            yield _Plan(
                labels,
                shown,
                tuple(
                    (self._append(place), _sample_name(place), number)
                    for place, number in places
                    if place.part is Part.VALUE
                ),
                tuple(
                    (self._append(place), place, number)
                    for place, number in places
                    if place.part is not Part.VALUE
                ),
            )

    def _append(self, place: Place) -> Append:
        return self._families[place.family].lines.append


def _labels_of(place: Place) -> tuple[str, tuple[int, ...]]:
    shown = tuple(number for number, name in enumerate(place.labels) if name)
    pairs = [f'{name}="%s"' for name in place.labels if name]
    for name, value in place.fixed:
        escaped = value.translate(_ESCAPES).replace("%", "%%")
        pairs.append(f'{name}="{escaped}"')
    return f"{{{','.join(pairs)}}}" if pairs else "", shown


def _escaped(tags: tuple[str, ...], shown: tuple[int, ...]) -> tuple[str, ...]:
    if len(shown) != len(tags):
        tags = tuple(tags[number] for number in shown)
    joined = "".join(tags)
    if '"' in joined or "\\" in joined or "\n" in joined or not joined.isascii():
        return tuple(tag.encode("utf-8", "replace").decode().translate(_ESCAPES) for tag in tags)
    return tags


def _sample_name(place: Place) -> str:
    return f"{place.family}_total" if place.kind is Kind.COUNTER else place.family


def _add_histogram(append: Append, place: Place, labels: str, value: Value) -> None:
    assert isinstance(value, Histogram)
    if place.part is Part.COUNT:
        append(f"{_sample_name(place)}{labels} {sum(value.counts)}\n")
    elif place.part is Part.QUANTILES:
        begun = f'{place.family}{_begun(labels)}quantile="'
        for quantile, found in quantiles_ms(value):
            append(f'{begun}{quantile}"}} {found}\n')
    else:
        begun, count = f'{place.family}_bucket{_begun(labels)}le="', 0
        for bound, count in buckets(value):
            append(f'{begun}{bound}"}} {count}\n')
        append(f"{place.family}_count{labels} {count}\n")
        append(f"{place.family}_sum{labels} {value.total_ns / 1e9}\n")


def _begun(labels: str) -> str:
    """The labels up to where one more is added."""
    return f"{labels[:-1]}," if labels else "{"
