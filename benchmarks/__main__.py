"""`python -m benchmarks [--versus-apache] [--rounds N] [--only TEXT] [NAME...]`: runs the loads and
prints medians.

With `--versus-apache` every load runs against kbroker and Apache Kafka in turn, round by round, and
the ratio of the medians is printed. Both are warm: `warming` says how, and what is measured cold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import (
    cluster,
    commands,
    compaction,
    durability,
    loads,
    neighbour,
    pipeline,
    processes,
    replication,
    spark,
    spark_pipeline,
    storage,
    transactions,
    warming,
)

# It looks inside the broker's processes, or sets what only kbroker has.
_OURS_ONLY = {"compaction", "neighbour", "storage"}

Start = Callable[[], AbstractContextManager[Any]]
Row = tuple[str, Callable[[Any], loads.Figures]]

# Each group runs against one fresh broker (or cluster) per round, its loads in this order.
GROUPS: dict[str, Sequence[Row]] = {
    "start": [("start", loads.first_produce), ("stop", loads.clean_stop)],
    "produce": [
        ("produce acks=1, 5 in flight", loads.produce_requests(1, 5)),
        ("produce acks=all, 5 in flight", loads.produce_requests(-1, 5)),
        ("produce acks=1, 1 in flight", loads.produce_requests(1, 1)),
        ("produce acks=all, 1 in flight", loads.produce_requests(-1, 1)),
    ],
    "java": [
        ("java producer 1 M x 1 KB acks=all", loads.java_producer()),
        ("java consumer of the same", loads.java_consumer()),
    ],
    "commands": [("1 M lines of 100 bytes", commands.lines_in_and_out())],
    "latency": [("end to end acks=all", loads.end_to_end_latency())],
    "transactions": transactions.ROWS,
    "durability": durability.ROWS,
    "idle": [
        ("2,000 idle connections", loads.idle_connections()),
        ("2,000 partitions", loads.many_partitions()),
    ],
    "storage": storage.ROWS,
    "neighbour": neighbour.ROWS,
    "compaction": [("5 M records, 100,000 keys", compaction.beside_a_producer())],
    "cluster": cluster.LOADS,
    "replication": replication.loads(),
    "spark": [*spark.ROWS, *spark_pipeline.ROWS],
    "pipeline": pipeline.loads(),
}
_BROKERS: dict[str, Start] = {"kbroker": processes.kbroker, "apache": processes.apache}
_CLUSTERS: dict[str, Start] = {kind: partial(cluster.running, kind) for kind in _BROKERS}
_REPLICATED: dict[str, Start] = {kind: partial(replication.running, kind) for kind in _BROKERS}
_PAIRS: dict[str, Start] = {kind: partial(pipeline.running, kind) for kind in _BROKERS}
_STARTS = {"cluster": _CLUSTERS, "replication": _REPLICATED, "pipeline": _PAIRS}
_ROUNDS = {"pipeline": 3}  # its jobs take long
# Without it: starts, what idle brokers take, and loads that start brokers of their own.
_WARMED = {
    "produce",
    "java",
    "latency",
    "transactions",
    "cluster",
    "replication",
    "spark",
    "pipeline",
}


def main(arguments: Sequence[str]) -> None:
    """Run the chosen groups and print a table of medians."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "groups", nargs="*", metavar="NAME", help=f"of: {', '.join(GROUPS)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, help="3 of the pipeline by default, 5 of all others")
    parser.add_argument("--versus-apache", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT", help="loads with it in their names")
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
    saved: list[dict[str, Any]] = []
    for group in options.groups or GROUPS:
        if options.versus_apache and group in _OURS_ONLY:
            continue
        starts = dict(_STARTS.get(group, _BROKERS))
        if not options.versus_apache:
            del starts["apache"]
        rows = GROUPS[group]
        if group == "replication":
            rows = replication.loads(options.partitions, options.gigabytes)
        elif group == "pipeline":
            rows = pipeline.loads(options.records)
        wanted = [row for row in rows if options.only in row[0]]
        results = _run_group(group, wanted, starts, options.rounds or _ROUNDS.get(group, 5))
        _print_table(results, list(starts))
        saved += _medians(results)
    if options.save:
        options.save.write_text(json.dumps(saved, indent=1) + "\n")


def _run_group(
    group: str, rows: Sequence[Row], starts: dict[str, Start], rounds: int
) -> dict[tuple[str, str], dict[str, list[float]]]:
    results: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for number in range(rounds):
        # Turn about: what the first one does, such as warming Spark, is of use to the second.
        order = list(starts.items())[:: -1 if number % 2 else 1]
        for broker_name, start in order:
            print(f"{group}: round {number + 1} of {rounds}, {broker_name}", file=sys.stderr)
            with start() as broker:
                if group in _WARMED and "apache" in starts:
                    warming.warm(broker)
                    if group == "transactions":
                        transactions.warm(broker)
                for load_name, load in rows:
                    for figure, value in load(broker).items():
                        results[load_name, figure][broker_name].append(value)
    return results


def _medians(results: dict[tuple[str, str], dict[str, list[float]]]) -> list[dict[str, Any]]:
    return [
        {
            "load": load_name,
            "figure": figure,
            "medians": {name: round(statistics.median(each), 3) for name, each in values.items()},
        }
        for (load_name, figure), values in results.items()
    ]


def _print_table(results: dict[tuple[str, str], dict[str, list[float]]], names: list[str]) -> None:
    for (load_name, figure), values in results.items():
        medians = {name: statistics.median(values[name]) for name in names if name in values}
        cells = "  ".join(f"{name} {median:>12,.3f}" for name, median in medians.items())
        ours, *theirs = medians.values()
        ratio = f"  ratio {ours / theirs[0]:.2f}" if theirs and theirs[0] else ""
        first = values[next(iter(medians))]
        spread = f"  (min {min(first):,.3f}, max {max(first):,.3f})"
        print(f"{load_name:<44} {figure:<26} {cells}{ratio}{spread}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
