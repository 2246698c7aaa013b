"""kafka-storage: ids for clusters; a broker here formats its directory by itself."""

from __future__ import annotations

import click

from kbroker.cli.kafka_tools.tool_options import Given, Option, Tool, ToolError
from kbroker.cli.shown.output import say

_ACTIONS = ("random-uuid", "format")


def _run(given: Given) -> int:
    if given.words == ("random-uuid",):
        from kbroker.server.metadata_tree.broker_identity import new_cluster_id

        click.echo(new_cluster_id())
        return 0
    if given.words != ("format",):
        raise ToolError(f"give one of {' and '.join(_ACTIONS)}")
    say(
        "nothing to format: a broker makes its directory at its first start, with the cluster id "
        "in CLUSTER_ID, or one of its own"
    )
    return 0


TOOL = Tool(
    summary="draws the id of a cluster (random-uuid); there is nothing to format.",
    options={
        "config": Option("Taken, without effect.", "FILE"),
        "cluster-id": Option("Taken, without effect: the broker reads CLUSTER_ID.", "ID"),
        "ignore-formatted": Option("Taken, without effect."),
        "standalone": Option("Taken, without effect."),
    },
    run=_run,
    takes="random-uuid|format",
    short={"-c": "config", "-t": "cluster-id", "-g": "ignore-formatted", "-s": "standalone"},
)
