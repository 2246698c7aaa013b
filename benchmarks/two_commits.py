"""What this checkout's brokers take beside those of another commit: `python -m benchmarks.two_commits
COMMIT`. With HEAD, what two processes of the same code differ by.

Each round starts both anew, as two processes differ by some percent for nothing, and sends blocks of
requests to one and the other in turn, of which each is compared with the next one.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import click

from benchmarks import raw_client
from benchmarks.generator import Traffic, send
from benchmarks.instrument_cost import LOADS
from benchmarks.loads import first_produce
from benchmarks.processes import RunningBroker, kbroker
from benchmarks.request_kinds import Heartbeat, OffsetCommit

_BLOCK = 1_000  # requests
_ROOT = Path(__file__).parents[1]
_COMPARED = LOADS | {"heartbeat": Heartbeat(), "commit of an offset": OffsetCommit()}

Pairs = dict[str, list[tuple[float, float]]]  # by figure: the other commit's, and ours


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The files of a commit in a folder of their own; its byte code and ours are there, too."""
    with tempfile.TemporaryDirectory(prefix="kbroker-bench-") as folder:
        archive = subprocess.run(
            ["git", "archive", commit, "kbroker"], cwd=_ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        compiled = [sys.executable, "-m", "compileall", "-q", folder, str(_ROOT / "kbroker")]
        subprocess.run(compiled, check=True)
        yield Path(folder)


def compare(other: Path, order: int, blocks: int, only: str) -> Pairs:
    """One round: figures of a new broker of each; `order` 1 has ours started first. Of the loads,
    those with `only` in their names.
    """
    found: Pairs = {}
    folders = [other, _ROOT]
    with (
        kbroker(checkout=folders[order]) as first,
        kbroker(checkout=folders[1 - order]) as second,
    ):
        brokers = [first, second] if order == 0 else [second, first]
        starts = []
        for broker in brokers:
            figures = first_produce(broker)
            starts.append((broker.cpu_s(), figures["idle_rss_mib"]))
        (cpu_s, mib), (our_cpu_s, our_mib) = starts
        found["start and first record, s of CPU"] = [(cpu_s, our_cpu_s)]
        found["idle, MiB"] = [(mib, our_mib)]
        for name, load in _COMPARED.items():
            for in_flight in (1, 5) if only in name else ():
                named = f"{name}, {in_flight} in flight, us of CPU"
                found[named] = _blocks(brokers, load, in_flight, blocks)
    return found


def _blocks(
    brokers: list[RunningBroker], load: object, in_flight: int, blocks: int
) -> list[tuple[float, float]]:
    made = [load.made(broker, 1_000) for broker in brokers]  # type: ignore[attr-defined]

    def cost(number: int) -> float:
        frames, broker = made[number], brokers[number]
        traffic = Traffic(frames=frames.frames, in_flight=in_flight, error_at=frames.error_at)
        return send(broker.address, traffic, _BLOCK, [broker.process.pid]).cpu_us

    for number in (0, 1):
        cost(number)
    found = []
    for block in range(blocks):
        in_turn = (0, 1) if block % 2 else (1, 0)
        costs = {number: cost(number) for number in in_turn}
        found.append((costs[0], costs[1]))
    for broker, frames in zip(brokers, made, strict=True):
        if frames.topics:
            raw_client.delete_topics(broker.address, frames.topics)
    return found


@click.command()
@click.argument("commit")
@click.option("--rounds", default=5, help="Brokers that are started of each.")
@click.option("--blocks", default=10, help="Of 1,000 requests, of each kind at each broker.")
@click.option("--only", default="", help="Loads with this in their names.")
def main(commit: str, rounds: int, blocks: int, only: str) -> None:
    """Print medians, and what ours are of the other commit's, with the least and the most round."""
    ratios: dict[str, list[float]] = defaultdict(list)
    values: Pairs = defaultdict(list)
    with checked_out(commit) as other:
        for number in range(rounds):
            for name, pairs in compare(other, number % 2, blocks, only).items():
                ratios[name].append(median(ours / theirs for theirs, ours in pairs))
                values[name] += pairs
    for name, of_rounds in ratios.items():
        theirs, ours = (median(each) for each in zip(*values[name], strict=True))
        click.echo(
            f"{name}: {theirs:.2f}, now {ours:.2f}, {median(of_rounds) - 1:+.1%} "
            f"({min(of_rounds) - 1:+.1%} to {max(of_rounds) - 1:+.1%})"
        )


if __name__ == "__main__":
    main()
