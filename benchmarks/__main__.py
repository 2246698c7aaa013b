"""`python -m benchmarks [--versus-apache] [--rounds N] [--only TEXT] [NAME...]`: runs the loads and
prints medians.

With `--versus-apache` every load runs against kbroker and Apache Kafka in turn, round by round, and
the ratio of the medians is printed. Both are warm: the groups `requests`, `java`, `security` and `rules`
say how for each load, `warming` for all others, and what is measured cold. `requests` has kfake and bare loops beside.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    client_loads,
    cluster,
    commands,
    compaction,
    consumer_groups,
    durability,
    loads,
    neighbour,
    pipeline,
    processes,
    references,
    replication,
    request_loads,
    rounds,
    ruled_loads,
    secured_brokers,
    secured_loads,
    spark,
    spark_pipeline,
    storage,
    tables,
    transactions,
    warming,
)
from benchmarks.request_loads import RequestLoad
from benchmarks.rounds import KFAKE, Results, Row, StandingLoad, Start

# It looks inside the broker's processes, or sets what only kbroker has.
_OURS_ONLY = {"compaction", "neighbour", "storage"}

# Their brokers stand for all loads, each of which is warmed before its rounds.
STANDING: dict[str, Sequence[StandingLoad]] = {
    "requests": request_loads.LOADS,
    "java": client_loads.LOADS,
    "security": secured_loads.LOADS,
    "rules": ruled_loads.LOADS,
}
# Each of the others runs against one fresh broker (or cluster) per round, its loads in this order.
FRESH: dict[str, Sequence[Row]] = {
    "start": [("start", loads.first_produce), ("stop", loads.clean_stop)],
    "commands": [("1 M lines of 100 bytes", commands.lines_in_and_out())],
    "transactions": transactions.ROWS,
    "durability": durability.ROWS,
    "idle": [
        ("2,000 idle connections", loads.idle_connections()),
        ("2,000 partitions", loads.many_partitions()),
    ],
    "storage": storage.ROWS,
    "neighbour": neighbour.ROWS,
    "groups": consumer_groups.loads(),
    "compaction": [("5 M records, 100,000 keys", compaction.beside_a_producer())],
    "cluster": cluster.LOADS,
    "replication": replication.loads(),
    "spark": [*spark.ROWS, *spark_pipeline.ROWS],
    "pipeline": pipeline.loads(),
}
GROUPS = [*STANDING, *FRESH]
_BROKERS: dict[str, Start] = {"kbroker": processes.kbroker, "apache": processes.apache}
_CLUSTERS: dict[str, Start] = {kind: partial(cluster.running, kind) for kind in _BROKERS}
_REPLICATED: dict[str, Start] = {kind: partial(replication.running, kind) for kind in _BROKERS}
_PAIRS: dict[str, Start] = {kind: partial(pipeline.running, kind) for kind in _BROKERS}
_SECURED: dict[str, Start] = {kind: partial(secured_brokers.running, kind) for kind in _BROKERS}
_RULED: dict[str, Start] = {kind: partial(ruled_loads.running, kind) for kind in _BROKERS}
_STARTS = {
    "security": _SECURED,
    "rules": _RULED,
    "cluster": _CLUSTERS,
    "replication": _REPLICATED,
    "pipeline": _PAIRS,
}
_ROUNDS = {"pipeline": 3}  # its jobs take long
_QUICK_SHARE = 0.01  # of groups, members and partitions
# Without it: starts, what idle brokers take, and loads that start brokers of their own.
_WARMED = {"transactions", "groups", "cluster", "replication", "spark", "pipeline"}


def main(arguments: Sequence[str]) -> None:
    """Run the chosen groups and print a table of medians for each."""
    options = _options(arguments)
    saved: list[dict[str, Any]] = []
    for group in options.groups or GROUPS:
        if options.versus_apache and group in _OURS_ONLY:
            continue
        results = _run_group(group, options)
        for line in tables.best_and_worst(results):
            print(line, flush=True)
        saved += tables.medians(results)
        if options.save:
            options.save.write_text(json.dumps(saved, indent=1) + "\n")


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", metavar="NAME", help=f"of: {', '.join(GROUPS)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, help="3 of the pipeline by default, 5 of all others")
    parser.add_argument("--versus-apache", action="store_true")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="loads with it in their names, in any case"
    )
    parser.add_argument(
        "--quick", action="store_true",
        help="one round, and of requests, java, security, rules and groups only as much as shows that all works",
    )  # fmt: skip
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the medians as JSON")
    parser.add_argument(
        "--partitions", type=int, default=replication.PARTITIONS, help="of the replicated cluster"
    )
    parser.add_argument(
        "--gigabytes", type=float, default=1.0, help="that a replica has missed and catches up with"
    )
    parser.add_argument(
        "--records", type=int, default=pipeline.RECORDS, help="that the pipeline's jobs write"
    )
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(GROUPS)
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}")
    return options


def _run_group(group: str, options: argparse.Namespace) -> Results:
    """Run the loads of a group whose names are wanted, and print their rows as they come."""
    starts = dict(_STARTS.get(group, _BROKERS))
    if not options.versus_apache:
        del starts["apache"]
    count = 1 if options.quick else options.rounds or _ROUNDS.get(group, 5)
    text = options.only.lower()
    if group in STANDING:
        wanted = [load for load in STANDING[group] if text in load.name.lower()]
        return _run_standing(group, wanted, starts, count, options.quick) if wanted else {}
    rows = FRESH[group]
    if group == "replication":
        rows = replication.loads(options.partitions, options.gigabytes)
    elif group == "pipeline":
        rows = pipeline.loads(options.records)
    elif group == "groups" and options.quick:
        rows = consumer_groups.loads(_QUICK_SHARE)
    rows = [row for row in rows if text in row[0].lower()]
    if not rows:
        return {}
    is_warm = group in _WARMED and "apache" in starts
    results = rounds.fresh(group, rows, starts, count, partial(_warm, group, is_warm))
    said = f"{2 * warming.REQUESTS:,} requests before" if is_warm else "not warm"
    print(f"\n{group}: {tables.conditions(list(starts), said, count)}\n")
    tables.Table(list(starts), count).add(results)
    return results


def _run_standing(
    group: str,
    wanted: Sequence[StandingLoad],
    starts: dict[str, Start],
    count: int,
    quick: bool,
) -> Results:
    effort = request_loads.QUICK if quick else request_loads.FULL
    names = list(starts)
    said = "each load run twice before"
    if group == "requests":
        if "apache" in starts:
            if references.kfake_program():
                starts = {**starts, KFAKE: references.kfake}
            names = list(starts)
            if any(isinstance(load, RequestLoad) and load.has_bare_loop for load in wanted):
                names += references.bare_loops()
        said = (
            f"each load warmed by {effort.warm_up_requests:,} requests "
            f"or {effort.warm_up_s} s, whichever ends first"
        )
    if quick:
        said += ", sizes cut: a trial, not a measurement"
    print(f"\n{group}: {tables.conditions(names, said, count)}\n")
    table, results = tables.Table(names, count), {}
    for of_load in rounds.standing(wanted, starts, count, effort):
        table.add(of_load)
        results |= of_load
    return results


def _warm(group: str, is_warm: bool, target: Any) -> None:
    if is_warm:
        warming.warm(target)
        if group == "transactions":
            transactions.warm(target)


if __name__ == "__main__":
    main(sys.argv[1:])
