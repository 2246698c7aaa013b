"""Operations on the cluster and its brokers."""

from __future__ import annotations

from typing import Final

from kbroker.console.broker import BrokerDetails, broker
from kbroker.console.overview import Overview, overview
from kbroker.console.web.api.operation import Given, Operation
from kbroker.console.web.console import Console
from kbroker.console.web.web_request import RefusedError


async def _overview(console: Console, _given: Given) -> Overview:
    return await overview(console.cluster)


async def _broker(console: Console, given: Given) -> BrokerDetails:
    return await broker(console.cluster, broker_id_of(given.places["broker"]))


def broker_id_of(text: str) -> int:
    """Return the id of a broker in a path. Raises RefusedError if it is not one."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 10:
        raise RefusedError(404, f"no such broker: {text[:100]!r}")
    return int(text)


OPERATIONS: Final = (
    Operation(
        name="getOverview",
        path="/overview",
        summary="The cluster at a glance: brokers, controller, partitions that lack something.",
        answer=Overview,
        function=_overview,
    ),
    Operation(
        name="getBroker",
        path="/brokers/{broker}",
        summary="A broker: its settings with their origins, and its disks.",
        answer=BrokerDetails,
        function=_broker,
    ),
)
