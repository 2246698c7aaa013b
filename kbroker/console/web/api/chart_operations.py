"""Operations of the API on what charts show."""

from __future__ import annotations

from typing import Final

from kbroker.console.web.api.operation import Given, Operation
from kbroker.console.web.chart_series import (
    Charts,
    charts_of_cluster,
    charts_of_group,
    charts_of_topic,
)
from kbroker.console.web.console import Console


async def _of_cluster(console: Console, _given: Given) -> Charts:
    return await charts_of_cluster(console)


async def _of_topic(console: Console, given: Given) -> Charts:
    return await charts_of_topic(console, given.places["topic"])


async def _of_group(console: Console, given: Given) -> Charts:
    return await charts_of_group(console, given.places["group"])


OPERATIONS: Final = (
    Operation(
        name="getCharts",
        path="/charts",
        summary="Charts of 15 minutes: of this broker, or of what is written to the cluster.",
        answer=Charts,
        function=_of_cluster,
    ),
    Operation(
        name="getChartsOfTopic",
        path="/topics/{topic}/charts",
        summary="A chart of what is written to a topic, from its end offsets.",
        answer=Charts,
        function=_of_topic,
    ),
    Operation(
        name="getChartsOfGroup",
        path="/groups/{group}/charts",
        summary="Charts of the lag of a group, and of what it commits.",
        answer=Charts,
        function=_of_group,
    ),
)
