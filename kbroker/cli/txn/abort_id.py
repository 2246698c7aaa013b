"""`kbroker txn abort --transactional-id`: has the coordinator abort what an id has open."""

from __future__ import annotations

from kbroker.cli.arguments.connection import CommandError, cluster_links
from kbroker.cli.arguments.refusals import refuse
from kbroker.cli.shown.output import named, say
from kbroker.client.aborted_ids import (
    PATIENCE_S,
    AbortedId,
    abort_what_is_open,
    sentence_of_abort,
)
from kbroker.client.transactions import listed_transactions
from kbroker.client.unknown_names import no_such
from kbroker.wording import shown


def abort_id(bootstrap: str, name: str) -> None:
    """Abort the open transaction of an id, and say what became of it. CommandError if nobody uses
    the id, or its partitions do not get their markers.
    """
    with cluster_links(bootstrap) as links:
        done = abort_what_is_open(links, name) if name else None  # none is empty
        if done is None:
            known = [each.transactional_id for each in listed_transactions(links)]
            refuse([no_such("transactional id", name, known, "txn")])
            return
    if not done.is_ended:
        raise CommandError(_waiting(done))
    say(sentence_of_abort(done))


def _waiting(done: AbortedId) -> str:
    before = done.before
    return (
        f"{shown(before.transactional_id)}: the transaction of producer {before.producer_id} is "
        f"{done.after.state}, and {named(before.partitions)} did not all get their markers in "
        f"{PATIENCE_S:.0f} s; broker {done.after.coordinator} goes on: look at `kbroker cluster "
        "status`"
    )
