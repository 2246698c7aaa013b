"""`python -m compat_tests.batches --batches N --seed S`: sends N generated batches to kbroker and to
Apache Kafka 3.9.2 and 4.3.1, and has Java read what they stored. It prints what kbroker does
otherwise than both of them and no allowance explains.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from compat_tests.answers.hunt import running
from compat_tests.batches.hunt import Hunt
from compat_tests.batches.judging import Difference

_ROUND = 8_000
_LEAST = 100  # of a round
_SHOWN = 40


def main() -> int:
    """Exit code 1 where something is not explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds of topics that begin so, such as old")
    wanted = parser.parse_args()
    begun = time.monotonic()
    found: list[Difference] = []
    with tempfile.TemporaryDirectory(prefix="batches-") as root, running(Path(root)) as brokers:
        hunt = Hunt({name: broker.bootstrap for name, broker in brokers.items()})
        number = 0
        while hunt.count < wanted.batches:
            size = max(_LEAST, min(_ROUND, wanted.batches - hunt.count))
            found += hunt.round(f"{wanted.seed}-{number}", size, wanted.only)
            number += 1
            rate = hunt.count / (time.monotonic() - begun)
            print(f"{hunt.count} batches, {rate:.0f}/s, {len(found)} found", file=sys.stderr)
        hunt.close()
    for kind, times in Counter(f"{each.topic}: {each.odd}" for each in found).most_common(_SHOWN):
        first = next(each for each in found if f"{each.topic}: {each.odd}" == kind)
        print(f"{times} times {first}\n    {first.data.hex()}")
    print(f"{hunt.count} batches, {hunt.taken} stored by kbroker and read by Java; {hunt.allowed} differ "
          f"as allowed, {len(found)} otherwise")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
