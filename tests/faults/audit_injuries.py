"""Plants faults into data directories and their archives, one at a time, and asks the audit for
them: each has to be named, at the right place, and of what is sound nothing may be said.

`python -m tests.faults.audit_injuries --faults 200 --seed 7` is the long form of the test beside
it.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbroker.inspection.finding import Severity
from tests.fakes.archives.archived_directory import archive_directory
from tests.faults.audit_archive_faults import ARCHIVE_FAULTS
from tests.faults.audit_case import Case, Planted
from tests.faults.audit_log_faults import LOG_FAULTS
from tests.golden import golden_logs
from tests.integration.directory_writer import DirectoryWriter
from tests.integration.written_directory import write_everything

OWN = "kbroker"
INJURED = (OWN, *golden_logs.CLEAN)
SOUND = (OWN, *golden_logs.CLEAN, *golden_logs.COMPACTED, golden_logs.OLD_FORMATS)
FAULTS = (*LOG_FAULTS, *ARCHIVE_FAULTS)
_ATTEMPTS = 400  # at a fault that most files cannot have
_BATCHES = 3


@dataclass
class Outcome:
    """Faults by kind, those that were not found, and what was said of sound sets."""

    planted: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, str, Planted, list[str]]] = field(default_factory=list)
    false: list[tuple[str, str]] = field(default_factory=list)


def make_case(name: str, target: Path) -> Case:
    """A directory, written by kbroker or by Apache Kafka, and its archive."""
    directory, archive = target / name, target / f"{name}.archive"
    directory.mkdir(parents=True)
    if name == OWN:
        writer = DirectoryWriter(directory)
        write_everything(writer)
        writer.close()
    else:
        golden_logs.unpack(name, directory)
    archive_directory(str(directory), str(archive), batches=_BATCHES)
    return Case(name, directory, archive)


def complaints(case: Case) -> list[tuple[str, str]]:
    """Return the complaints about a case as it is. One topic of kbroker's has gaps of its own
    making, with no cleaner that would explain them: an archive says so, rightly.
    """
    return [
        (case.name, f"{each.finding.code} {each.finding.path}: {each.finding.what}")
        for each in case.as_it_is.findings
        if each.finding.severity > Severity.INFO
        and not (each.finding.code == "archive-unexplained" and "(gaps-0)" in each.finding.path)
    ]


def hunt(cases: Sequence[Case], faults: int, seed: int) -> Outcome:
    """Plant and look; the kinds of faults come in turn, the places by chance."""
    outcome = Outcome()
    for case in cases:
        outcome.false += complaints(case)
        case.learn()
    for number in range(faults):
        chance = random.Random(seed * 1_000_003 + number)
        fault = FAULTS[number % len(FAULTS)]
        for _ in range(_ATTEMPTS):
            case = chance.choice(cases)
            planted = fault(case, chance)
            if planted is not None:
                outcome.planted[fault.__name__] += 1
                if not case.is_found(planted):
                    told = [
                        f"{each.finding.code} {each.finding.path} {each.finding.position} "
                        f"{each.finding.offset}"
                        for each in case.audit(planted).findings
                    ]
                    outcome.missed.append((case.name, fault.__name__, planted, told))
                case.heal()
                break
            case.heal()
    return outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as target:
        cases = {name: make_case(name, Path(target)) for name in SOUND}
        outcome = hunt([cases[name] for name in INJURED], arguments.faults, arguments.seed)
        for name in SOUND:
            if name not in INJURED:
                outcome.false += complaints(cases[name])
    for fault, count in sorted(outcome.planted.items()):
        sys.stdout.write(f"{fault:28} {count:5}\n")
    for name, fault, planted, told in outcome.missed:
        sys.stdout.write(f"not found: {fault} in {name}: {planted}\n")
        sys.stdout.writelines(f"    {line}\n" for line in told)
    for name, what in outcome.false:
        sys.stdout.write(f"said of sound {name}: {what}\n")
    sys.stdout.write(
        f"{sum(outcome.planted.values())} faults, {len(outcome.missed)} not found; "
        f"{len(SOUND)} sound sets, {len(outcome.false)} false findings\n"
    )
    if outcome.missed or outcome.false:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
