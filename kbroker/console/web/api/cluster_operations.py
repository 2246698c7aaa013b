"""Operations on the cluster and its brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kbroker.console.broker import BrokerDetails, broker, configure_broker
from kbroker.console.done import Done
from kbroker.console.overview import Overview, overview
from kbroker.console.web.api.operation import Given, Operation
from kbroker.console.web.api.topic_operations import SettingsToChange, done
from kbroker.console.web.console import Console
from kbroker.console.web.web_request import RefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettingsToChange(SettingsToChange):
    """Settings of a running broker to be set by name, and names of those that get their defaults
    back; with `of_all_brokers` those that hold for all brokers.
    """

    of_all_brokers: bool = False


async def _overview(console: Console, _given: Given) -> Overview:
    return await overview(console.cluster)


async def _broker(console: Console, given: Given) -> BrokerDetails:
    return await broker(console.cluster, broker_id_of(given.places["broker"]))


async def _configure(console: Console, given: Given) -> Done:
    body: BrokerSettingsToChange = given.body
    broker_id = broker_id_of(given.places["broker"])
    changes, of_all = body.changes(), body.of_all_brokers
    return done(await configure_broker(console.cluster, broker_id, changes, of_all=of_all))


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
    Operation(
        name="configureBroker",
        method="POST",
        path="/brokers/{broker}/settings",
        summary="Set settings of a running broker, or of all, and give others their defaults back.",
        answer=Done,
        function=_configure,
        body=BrokerSettingsToChange,
    ),
)
