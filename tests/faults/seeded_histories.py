"""Histories that follow from a seed, on an event loop of their own: played one by one, hunted, and
followed step by step.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import ArgumentParser
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple


class SeededHistories(NamedTuple):
    """The histories of one simulation. `run` plays a seed, and says what happens if it `is_told`;
    AssertionError where a law is broken.
    """

    module: str
    run: Callable[[int, bool], Coroutine[Any, Any, None]]

    def play(self, seed: int, *, is_told: bool = False) -> str | None:
        """Return what is wrong with a seed; one that is told raises it."""
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(self.run(seed, is_told))
        except AssertionError as error:
            if is_told:
                raise
            return str(error) or repr(error)
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
        return None

    def violations(self, seeds: range) -> Iterator[str]:
        """Yield what is wrong with these seeds, as it is found."""
        for seed in seeds:
            found = self.play(seed)
            if found is not None:
                yield f"seed {seed}: {found.splitlines()[0]}"

    def main(self) -> int:
        """Hunt, or follow one seed."""
        parser = ArgumentParser(prog=f"python -m {self.module}")
        parser.add_argument("--seeds", default="1-100", help="one seed, or the first and the last")
        parser.add_argument(
            "--trace", action="store_true", help="say all that happens in the first"
        )
        given = parser.parse_args()
        logging.disable(logging.ERROR)
        first, _, last = given.seeds.partition("-")
        if given.trace:
            self.play(int(first), is_told=True)
            return 0
        count = 0
        for each in self.violations(range(int(first), int(last or first) + 1)):
            print(each, flush=True)
            count += 1
        print(f"{count} violations")
        return 1 if count else 0
