"""The charts of a cluster, a topic and a group: their figures, and where these are from."""

from __future__ import annotations

from dataclasses import dataclass

from kbroker.console.end_offsets import sum_of_ends
from kbroker.console.groups import group
from kbroker.console.partition_figures import sum_of
from kbroker.console.web.console import Console
from kbroker.console.web.parts import size
from kbroker.console.web.sampling import Figures, Series
from kbroker.console.web.svg_chart import Point, Unit, rates
from kbroker.console.web.views import BrokerViews

_BYTE_STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a chart: its figure, its title, its unit, and whether it shows how fast that
    grows.
    """

    name: str
    title: str
    unit: str
    is_rate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with its points, of 15 minutes at most; those of a rate are for a second."""

    name: str
    title: str
    unit: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The charts of a subject; `trouble` says why there is no newer point."""

    charts: tuple[Chart, ...]
    trouble: str | None


_OF_BROKER = (
    Line(name="messages_in", title="Messages written to this broker", unit="/s"),
    Line(name="bytes_in", title="Bytes written to this broker", unit="B/s"),
    Line(name="bytes_out", title="Bytes read from this broker", unit="B/s"),
    Line(name="requests", title="Requests to this broker", unit="/s"),
    Line(name="connections", title="Connections to this broker", unit="", is_rate=False),
)
_OF_OFFSETS = (Line(name="ends", title="Offsets written", unit="/s"),)
_OF_GROUP = (
    Line(name="lag", title="Lag", unit="", is_rate=False),
    Line(name="committed", title="Offsets committed", unit="/s"),
)


async def charts_of_cluster(console: Console) -> Charts:
    """Chart the broker that serves this console, or, with any other, what is written to the
    cluster. Raises ClientError, KafkaError.
    """
    views = console.views
    if views is None:
        return await charts_of_topic(console, None)
    found: BrokerViews = views

    async def measure() -> Figures:
        figures = await found.figures()
        return {line.name: getattr(figures, line.name) for line in _OF_BROKER}

    await found.check()  # points that were taken before stay for a while
    return _charts(await console.sampling.look("", measure), _OF_BROKER)


async def charts_of_topic(console: Console, topic: str | None) -> Charts:
    """Chart what is written to a topic, or to all.

    Raises NotFoundError, ClientError, KafkaError.
    """

    async def measure() -> Figures:
        return {"ends": await sum_of_ends(console.cluster, topic)}

    subject = "" if topic is None else f"topic {topic}"
    return _charts(await console.sampling.look(subject, measure), _OF_OFFSETS)


async def charts_of_group(console: Console, name: str) -> Charts:
    """Chart the lag of a group. Raises NotFoundError, ClientError, KafkaError."""

    async def measure() -> Figures:
        found = await group(console.cluster, name)
        committed = [each.committed_offset for each in found.partitions]
        return {
            "lag": found.lag,
            "committed": sum_of(at for at in committed if at is not None),
        }

    return _charts(await console.sampling.look(f"group {name}", measure), _OF_GROUP)


def unit_named(name: str) -> Unit:
    """Return the unit of a chart.

    >>> unit_named("B/s").text(1536), unit_named("/s").text(0.25), unit_named("").text(1200)
    ('1.5 KiB/s', '0.25/s', '1,200')
    """
    if name == "B/s":
        return Unit(text=lambda value: f"{size(value)}/s", steps=_BYTE_STEPS)
    return Unit(text=lambda value: f"{_rounded(value)}{name}")


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _charts(series: Series, lines: tuple[Line, ...]) -> Charts:
    return Charts(
        charts=tuple(
            Chart(
                name=line.name,
                title=line.title,
                unit=line.unit,
                points=rates(series.points(line.name))
                if line.is_rate
                else series.points(line.name),
            )
            for line in lines
        ),
        trouble=series.trouble,
    )
