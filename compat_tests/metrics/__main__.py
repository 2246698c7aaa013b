"""Holds the metrics of kbroker against those of Apache Kafka 3.9.2 with Prometheus' jmx_exporter and
its example rules, under the same load:

    python -m compat_tests.metrics [--record FILE]

It prints each name that one side alone shows, with the reason, and what both have counted. Exit code
1 if something has no reason or a count differs. `--record` writes what Apache Kafka shows.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from compat_tests.metrics.comparing import Counted, Difference, counts, observed, shown_differences
from compat_tests.metrics.pages import Page
from compat_tests.metrics.recorded import write
from compat_tests.metrics.sides import APACHE, KBROKER, running
from compat_tests.running.zookeeper_servers import zookeeper_servers


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m compat_tests.metrics", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--record", type=Path, metavar="FILE")
    options = parser.parse_args()
    sides = {}
    with tempfile.TemporaryDirectory(prefix="metrics-") as folder, zookeeper_servers() as zookeeper:
        for kind in (KBROKER, APACHE):
            with running(Path(folder), zookeeper, kind) as side:
                sides[kind] = observed(side)
    apache, kbroker = sides[APACHE], sides[KBROKER]
    theirs, ours = shown_differences(apache.after, kbroker.after)
    _print_differences("Apache Kafka alone shows", theirs)
    _print_differences("kbroker alone shows", ours)
    counted = counts(apache, kbroker)
    for each in counted:
        print(_line(each))
    if options.record is not None:
        write(options.record, apache.after.shown)
    unexplained = sum(each.why is None for each in (*theirs, *ours))
    wrong = sum(each.apache != each.kbroker for each in counted)
    print(_summary(apache.after, kbroker.after, unexplained), f"; {len(counted) - wrong} counts equal, {wrong} not", sep="")  # fmt: skip
    return 1 if unexplained or wrong else 0


def _print_differences(title: str, found: Iterable[Difference]) -> None:
    print(f"{title}:")
    by_reason = sorted(found, key=lambda each: (each.why or "", each.shown))
    for why, some in groupby(by_reason, key=lambda each: each.why):
        print(f"  {why or 'WITHOUT A REASON'}:")
        for each in some:
            print(f"    {each.shown.name} ({each.shown.kind}) {', '.join(each.shown.labels)}")


def _line(each: Counted) -> str:
    sign = "=" if each.apache == each.kbroker else "!="
    return f"{each.what}: {each.apache:g} {sign} {each.kbroker:g}"


def _summary(apache: Page, kbroker: Page, unexplained: int) -> str:
    same = len(apache.shown & kbroker.shown)
    return f"{same} kinds of series are the same, {unexplained} differ without a reason"


if __name__ == "__main__":
    raise SystemExit(main())
