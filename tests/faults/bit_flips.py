"""`python -m tests.faults.bit_flips [--flips N] [--seed N]`: flips one or two bits in a file of a
data directory, opens the directory with the product, reads everything by every path, appends,
restarts, and reads again.

No record that is served may differ from what was acknowledged at its offset, nothing may crash, and
batches that were not hit must be there, except where an unclean stop lets recovery cut.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kbroker.errors import KafkaError
from kbroker.log.directories.log_directory import LogDirectoryError
from kbroker.log.partition.log import Log
from kbroker.record.legacy_record import any_records
from tests.fakes.logs.log_maker import NOW_MS, batch, delete_old_segments
from tests.faults.flip_examination import Examination
from tests.faults.flip_templates import (
    CLUSTER_ID,
    PARTITION,
    TOPIC_ID,
    Template,
    batch_ranges,
    make_templates,
    open_manager,
)

# No checksum and no second witness: a changed number in it hides records, or keeps the log closed.
_MAY_HIDE = ("log-start-offset-checkpoint",)
_MAY_REFUSE = ("meta.properties", "partition.metadata")
_UNFLIPPED = (".lock", ".kafka_cleanshutdown")


@dataclass(frozen=True)
class Flip:
    """Bits that were changed in one file."""

    path: Path  # below the data directory
    bits: tuple[int, ...]

    @property
    def kind(self) -> str:
        """`.log`, `.index` ... or the file's name."""
        return self.path.suffix if self.path.suffix and self.path.parent.name else self.path.name


@dataclass
class Outcome:
    """What became of one flip."""

    problems: list[str] = field(default_factory=list)
    verdict: str = "all served"


def main(arguments: Sequence[str]) -> int:
    """Run the hunt; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.bit_flips", description=__doc__)
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="bit-flips-") as home:
        counts, failures, slowest_s = hunt(Path(home), options.flips, options.seed)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind:<34} {verdict:<24} {count:>6}")
    print(f"{options.flips} flips, seed {options.seed}: {len(failures)} failures, "
          f"slowest {slowest_s:.2f} s")  # fmt: skip
    for failure in failures[:20]:
        print(failure[:1500])
    return 1 if failures else 0


def hunt(home: Path, flips: int, seed: int) -> tuple[Counter[tuple[str, str]], list[str], float]:
    """(count by kind of file and verdict, failures, slowest case in seconds)."""
    rnd = random.Random(seed)
    templates = make_templates(home / "templates", seed)
    counts: Counter[tuple[str, str]] = Counter()
    failures = []
    slowest_s = 0.0
    for number in range(flips):
        template = rnd.choice(templates)
        flip = _draw(template, rnd)
        if _has_no_witness(template, flip):
            counts[flip.kind, "no witness, left out"] += 1
            continue
        begun = time.perf_counter()
        outcome = try_flip(template, flip, home / "case")
        slowest_s = max(slowest_s, time.perf_counter() - begun)
        counts[flip.kind, outcome.verdict] += 1
        if outcome.problems:
            failures.append(
                f"{number}: {template.name} {flip.path} bits {flip.bits}: {outcome.problems[:4]}"
            )
    return counts, failures, slowest_s


def try_flip(template: Template, flip: Flip, case: Path) -> Outcome:
    """Flip, open, examine, append, stop, open and examine again."""
    shutil.rmtree(case, ignore_errors=True)
    shutil.copytree(template.directory, case)
    _flip(case / flip.path, flip.bits)
    outcome = Outcome()
    try:
        _live_through(template, flip, case, outcome)
    except LogDirectoryError as error:
        outcome.verdict = "refused"
        if flip.path.name not in _MAY_REFUSE:
            outcome.problems.append(f"refused: {error}")
    except Exception:  # any crash is a finding
        outcome.verdict = "crash"
        outcome.problems.append(_where())
    return outcome


def _where() -> str:
    """The innermost exception in one line."""
    kind, error, trace = sys.exc_info()
    frames = traceback.extract_tb(trace)[-5:]
    path = " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
    return f"{kind.__name__ if kind else ''}: {error} ({path})"


def _live_through(template: Template, flip: Flip, case: Path, outcome: Outcome) -> None:
    lost = _may_be_lost(template, flip)
    first_end = 0
    for start in (1, 2):
        manager = open_manager(case, template.settings)
        try:
            manager.load(CLUSTER_ID, 0)
            log = manager.get_log(PARTITION)
            if log is None:
                outcome.verdict = "refused"
                if flip.path.name not in _MAY_REFUSE:
                    outcome.problems.append("the log was not opened")
                return
            if log.topic_id != TOPIC_ID:
                outcome.verdict = "refused"  # the controller names another id
                if flip.path.name not in _MAY_REFUSE:
                    outcome.problems.append(f"topic id {log.topic_id}")
                return
            if flip.path.name in _MAY_HIDE:
                lost = lost | {o for o in template.records if o < log.log_start_offset}
            if start == 1:
                has_start = flip.path.name not in _MAY_HIDE
                examination = Examination(log, template, lost, has_start=has_start)
                _examine(examination, template, lost, outcome)
                first_end = log.log_end_offset
                _append(log, outcome)
                delete_old_segments(log, NOW_MS + 1000)
            else:
                _examine_again(log, template, (lost, first_end), outcome)
        finally:
            manager.shutdown()


def _examine(
    examination: Examination, template: Template, lost: set[int], outcome: Outcome
) -> None:
    examination.run()
    outcome.problems += examination.problems
    if examination.refused:
        outcome.verdict = "damage refused"
    elif lost - examination.served & template.records.keys() and len(examination.served) < len(
        template.records
    ):
        outcome.verdict = "cut or hidden"
    elif examination.has_other_epochs:
        outcome.verdict = "other epochs"


def _append(log: Log, outcome: Outcome) -> None:
    end = log.log_end_offset
    for number in range(12):
        info = log.append_as_leader(batch(b"after" * 20, timestamp=NOW_MS + 5000), 9, NOW_MS)
        if info.first_offset != end + number:
            outcome.problems.append(f"appended at {info.first_offset}, log ended at {end + number}")
    log.update_high_watermark(log.log_end_offset)
    data = log.read(end, 100_000, min_one_message=True).records.read()
    if next(any_records(data)).value != b"after" * 20:
        outcome.problems.append("what was appended is not read back")


def _examine_again(
    log: Log, template: Template, known: tuple[set[int], int], outcome: Outcome
) -> None:
    """After a clean restart: the old records are as they were, the new ones behind them."""
    lost, first_end = known
    log.update_high_watermark(log.log_end_offset)
    if log.log_end_offset != first_end + 12:
        outcome.problems.append(f"end {log.log_end_offset} after a restart, was {first_end + 12}")
    offset = log.log_start_offset
    served = set()
    while offset < first_end:
        try:
            data = log.read(offset, 2000, min_one_message=True).records.read()
        except KafkaError:
            offset += 1
            continue
        for record in any_records(data):
            if record.offset >= offset and record.offset < first_end:
                served.add(record.offset)
                wanted = template.records.get(record.offset)
                if wanted is not None and wanted != record:
                    outcome.problems.append(f"wrong record at {record.offset} after a restart")
            last = record.offset
        offset = max(offset + 1, last + 1)
    missing = {o for o in template.records if log.log_start_offset <= o} - served - lost
    if missing:
        outcome.problems.append(f"missing after a restart: {sorted(missing)[:5]}")


def _may_be_lost(template: Template, flip: Flip) -> set[int]:
    """The offsets of batches that were hit; after an unclean stop all behind them as well."""
    if flip.path.suffix != ".log":
        return set()
    hit: set[int] = set()
    ranges = batch_ranges(template, template.directory / flip.path)
    for bit in flip.bits:
        for index, (start, end, first, last) in enumerate(ranges):
            if start <= bit // 8 < end:
                hit.update(range(first, last + 1))
                if "gaps" in template.name and bit // 8 < start + 8:
                    # Where offsets have gaps, a moved batch and its neighbour may contradict each
                    # other with equal right.
                    for _, _, low, high in ranges[max(0, index - 1) : index + 2]:
                        hit.update(range(low, high + 1))
    if not template.is_clean:
        hit.update(range(min(hit), template.end_offset))
    return hit


def _has_no_witness(template: Template, flip: Flip) -> bool:
    """A batch that was moved within a gap of the offsets: no other number says where it was."""
    if not template.name.startswith("gaps") or flip.path.suffix != ".log":
        return False
    path = template.directory / flip.path
    data = bytearray(path.read_bytes())
    for bit in flip.bits:
        data[bit // 8] ^= 1 << bit % 8
    previous_last = int(flip.path.stem) - 1
    ranges = batch_ranges(template, path)
    following = [base for base, _ in template.batches if base > ranges[-1][3]]
    for index, (start, _, first, last) in enumerate(ranges):
        moved = int.from_bytes(data[start : start + 8], signed=True)
        behind = ranges[index + 1][2] if index + 1 < len(ranges) else min(following, default=2**62)
        if moved != first and previous_last < moved and moved + last - first < behind:
            return True
        previous_last = last
    return False


def _draw(template: Template, rnd: random.Random) -> Flip:
    """One or two bits of a file; every kind of file is as likely as any other."""
    paths = [
        path.relative_to(template.directory)
        for path in sorted(template.directory.rglob("*"))
        if path.is_file() and path.stat().st_size and path.name not in _UNFLIPPED
    ]
    kinds = sorted({Flip(path, ()).kind for path in paths})
    kind = rnd.choice([*kinds, ".log"])
    path = rnd.choice([path for path in paths if Flip(path, ()).kind == kind])
    size = _used_bytes(template.directory / path)
    first = rnd.randrange(size * 8)
    if rnd.random() < 0.5:
        return Flip(path, (first,))
    second = (first + rnd.randrange(1, 64)) % (size * 8)
    return Flip(path, (first, second))


def _used_bytes(path: Path) -> int:
    """Without the zeros of a file that has its full size in advance."""
    return max(1, len(path.read_bytes().rstrip(b"\0")))


def _flip(path: Path, bits: Sequence[int]) -> None:
    data = bytearray(path.read_bytes())
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
