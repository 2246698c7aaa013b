"""Power losses by the thousand: a broker works over a recording disk, and at random moments what a
power loss would leave there is opened and checked.

    python -m tests.faults.crash_images --images 10000 --flush acks-all --seed 1

A quarter of the images lose power again while they are recovered. Everything follows from the seed:
history number n of a run is replayed alone with `--seed <seed> --history n`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from kbroker.errors import KafkaError
from kbroker.log.disk.file_system import StorageError
from tests.fakes.disks.recording_file_system import RecordingFileSystem
from tests.faults.crash_check import ImageCheck, Violation, summary
from tests.faults.crash_load import CrashLoad
from tests.faults.crash_model import Promises

IMAGES_PER_HISTORY = 40
STEPS_BETWEEN = 25  # steps of the load for one image
SECOND_LOSS = 0.25  # of the images lose power again during recovery
MAX_SECOND_CHANGE = 60  # after at most so many changes of the disk
ADOPTED = 0.1  # of the images become the disk of the broker that works on


class PowerLossError(Exception):
    """Ends a recovery in the middle."""


@dataclass
class Outcome:
    """What a hunt came to; a violation of one of the kinds in `wanted` is all it was made for."""

    wanted: frozenset[str] = frozenset()
    images: int = 0
    acknowledged: int = 0
    second_losses: int = 0
    seconds: float = 0.0
    violations: list[tuple[int, str, Violation]] = field(default_factory=list)  # history, mode

    @property
    def is_enough(self) -> bool:
        """Whether what was wanted is found."""
        return any(violation.kind in self.wanted for _, _, violation in self.violations)

    def line(self) -> str:
        found = summary([violation for _, _, violation in self.violations])
        rate = self.images / self.seconds if self.seconds else 0.0
        return (
            f"{self.images} images ({self.second_losses} of them of a second power loss during "
            f"recovery), {self.acknowledged} acks=all answers, {rate:.0f} images/s, "
            f"violations: {found}"
        )


class History:
    """One load and the images taken of it."""

    def __init__(self, seed: str, flush: str, outcome: Outcome) -> None:
        self.random = Random(seed)
        self.number = int(seed.rpartition("/")[2])
        self.outcome = outcome
        self.load = CrashLoad(Random(f"{seed}/load"), flush, RecordingFileSystem())
        self.adopted: tuple[RecordingFileSystem, Promises] | None = None
        self._until_image = 0
        self._next_image()

    def run(self, images: int) -> None:
        """Work until so many images have been taken, or what was wanted is found."""
        load, outcome = self.load, self.outcome
        load.on_moment = self._on_moment
        enough = outcome.images + images
        try:
            while outcome.images < enough and not outcome.is_enough:
                load.step()
                if self.adopted is not None:
                    adopted, self.adopted = self.adopted, None
                    load.adopt(*adopted)
        except (KafkaError, StorageError, AssertionError) as error:
            violation = Violation("broker failed", repr(error))
            outcome.violations.append((self.number, "at work", violation))
        outcome.acknowledged += load.acked
        load.close()

    def _next_image(self) -> None:
        self._until_image = self.random.randrange(2 * STEPS_BETWEEN * 3)

    def _on_moment(self, load: CrashLoad) -> None:
        if self._until_image > 0:
            self._until_image -= 1
            return
        self._next_image()
        self._take(load)

    def _take(self, load: CrashLoad) -> None:
        promises = load.promises_now()
        image, mode = self._image(load.disk)
        self._check(image, promises, mode)

    def _image(self, disk: RecordingFileSystem) -> tuple[RecordingFileSystem, str]:
        seed = self.random.getrandbits(64)
        image = disk.image(Random(seed))
        return image, image.made_as

    def _check(self, image: RecordingFileSystem, promises: Promises, mode: str) -> None:
        if self.random.random() < SECOND_LOSS:
            again = self._lose_power_again(image)
            self.outcome.second_losses += 1
            image, mode = again, f"{mode}, then {again.made_as}"
        self.outcome.images += 1
        copy = image.image(Random(0), "killed") if self.random.random() < ADOPTED else None
        check = ImageCheck(image, promises, Random(self.random.getrandbits(64)))
        for violation in check.run():
            self.outcome.violations.append((self.number, mode, violation))
        if not check.violations:
            self.adopted = copy and (copy, promises)

    def _lose_power_again(self, image: RecordingFileSystem) -> RecordingFileSystem:
        """The image, opened, and cut short at a random change; or after the whole recovery."""
        left = self.random.randrange(MAX_SECOND_CHANGE)
        taken: list[RecordingFileSystem] = []

        def before_change(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                taken.append(image.image(Random(self.random.getrandbits(64))))
                raise PowerLossError

        image.before_change = before_change
        check = ImageCheck(image, Promises(), Random(0))
        with suppress(PowerLossError):
            check.open()
        image.before_change = None
        return taken[0] if taken else image.image(Random(self.random.getrandbits(64)))


def hunt(
    images: int,
    flush: str,
    seed: int,
    *,
    history: int | None = None,
    progress: bool = False,
    wanted: frozenset[str] = frozenset(),
) -> Outcome:
    """Check so many images, or those of one history, or until a `wanted` kind of violation is
    found.
    """
    outcome = Outcome(wanted)
    started = time.monotonic()
    number = history or 0
    while outcome.images < images:
        History(f"{seed}/{flush}/{number}", flush, outcome).run(
            min(IMAGES_PER_HISTORY, images - outcome.images)
        )
        outcome.seconds = time.monotonic() - started
        if history is not None:
            break
        number += 1
        if outcome.is_enough:
            break
        if progress and number % 10 == 0:
            _say(outcome.line())
    return outcome


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--flush", choices=("acks-all", "always", "never"), default="acks-all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--history", type=int)
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    outcome = hunt(chosen.images, chosen.flush, chosen.seed, history=chosen.history, progress=True)
    for number, mode, violation in outcome.violations[:20]:
        _say(f"history {number} ({mode}): {violation.kind}: {violation.text}")
    _say(outcome.line())
    return 1 if outcome.violations else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
