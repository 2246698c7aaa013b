"""What some histories of each simulation come to, a line each: the same in every process.

python -m tests.faults.repeated_histories
"""

from __future__ import annotations

from tests.faults import cluster_simulation, replication_simulation, transaction_simulation

STEPS = 12
HUNTS = (
    (cluster_simulation.hunt, range(1, 9)),
    (replication_simulation.hunt, range(1, 4)),
    (transaction_simulation.hunt, range(1, 3)),
)

if __name__ == "__main__":
    for hunt, seeds in HUNTS:
        outcome = hunt(seeds, STEPS)
        print(f"{outcome.digest:08x}", sorted(outcome.counts.items()))
