"""kafka-broker-api-versions: prints the requests that brokers take; shows that they answer."""

from __future__ import annotations

from kbroker.cli.arguments.connection import cluster_links
from kbroker.cli.kafka_tools.tool_options import BOOTSTRAP, Given, Tool
from kbroker.cli.shown.output import print_text
from kbroker.protocol.api_keys import ApiKey

_KEYS = frozenset(ApiKey)


def _run(given: Given) -> int:
    with cluster_links(given.bootstrap()) as links:
        for broker in links.describe([]).brokers:
            rack = broker.rack or "null"
            at = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {rack} isFenced: false)"
            served = sorted(links.link(broker.node_id).served.items())
            lines = [_line(key, versions.lowest, versions.highest) for key, versions in served]
            print_text(f"{at} -> (\n\t" + ",\n\t".join(lines) + "\n)")
    return 0


def _line(key: int, lowest: int, highest: int) -> str:
    name = ApiKey(key).api_name if key in _KEYS else "UNKNOWN"
    served = str(lowest) if lowest == highest else f"{lowest} to {highest}"
    return f"{name}({key}): {served} [usable: {highest}]"


TOOL = Tool(
    summary="prints which requests the brokers take, in which versions.",
    options=BOOTSTRAP,
    run=_run,
)
