"""Asks brokers for their connections, at their HTTP addresses."""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.cli.arguments.connection import CommandError
from kbroker.cli.broker.asked_over_http import connections_at
from kbroker.cli.broker.http_address import HttpAddress
from kbroker.cli.top.look import Connections
from kbroker.cli.top.watch import AskConnections


def connections_of(addresses: Sequence[HttpAddress]) -> AskConnections | None:
    """Return a function that asks all of these addresses; None if there are none."""

    def ask() -> Connections:
        rows, gaps = [], []
        for address in addresses:
            try:
                rows += connections_at(address)
            except CommandError as error:
                gaps.append(error.message)
        return Connections(rows, gaps)

    return ask if addresses else None
