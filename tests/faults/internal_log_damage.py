"""`python -m tests.faults.internal_log_damage [--logs N] [--seed N]`: damages a partition of
`__consumer_offsets`, has a coordinator load it, lets a group work there, restarts, and looks again.

No commit may be lost but those in batches that were hit, nothing may be invented, what a load could
not see keeps everything from expiring, and groups go on working.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbroker.coordinator.group.coordinated_group import Committer
from kbroker.coordinator.group.offsets import CommittedOffset
from kbroker.errors import ErrorCode
from kbroker.log.partition.log import Log
from kbroker.model import TopicPartition
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.messages.join_group import JoinGroupResponse
from tests.fakes.brokers.disk_offsets_log import DiskOffsetsLog
from tests.fakes.brokers.group_broker import GroupBroker
from tests.fakes.logs.log_maker import NOW_MS
from tests.fakes.running.virtual_time import VirtualTime
from tests.faults.internal_log_templates import (
    CLUSTER_ID,
    OFFSETS,
    Key,
    Rows,
    Template,
    batch_ranges,
    make_templates,
    open_manager,
)

# Small files whose numbers have no second witness: a changed one hides records or closes the log.
_LEFT_ALONE = (
    ".lock",
    ".kafka_cleanshutdown",
    "log-start-offset-checkpoint",
    "meta.properties",
    "partition.metadata",
)
_INDEXES = (".index", ".timeindex", ".txnindex")
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_WORKING = ("a", "new")  # groups that work after the load
_HEAD = 27  # offset, size, ... to the last offset's delta
_MONTH_MS = 30 * 86_400_000
_SESSION_MS = 10_000  # of the members in the log
_PAGE = 512


@dataclass(frozen=True)
class Injury:
    """What was done to one file: its new content, None where it was removed."""

    path: Path  # below the data directory
    kind: str
    content: bytes | None

    @property
    def is_log(self) -> bool:
        return self.path.suffix == ".log"


def main(arguments: Sequence[str]) -> int:
    """Run the hunt; 1 when anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.internal_log_damage", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, default=None, help="This one of the row.")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="internal-logs-") as home:
        counts, failures, slowest_s = hunt(Path(home), options.logs, options.seed, options.only)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind:<44} {verdict:<24} {count:>6}")
    print(f"{options.logs} logs, seed {options.seed}: {len(failures)} failures, "
          f"slowest {slowest_s:.2f} s")  # fmt: skip
    for failure in failures[:20]:
        print(failure[:1500])
    return 1 if failures else 0


def hunt(
    home: Path, logs: int, seed: int, only: int | None = None
) -> tuple[Counter[tuple[str, str]], list[str], float]:
    """(count by damage and verdict, failures, slowest case in seconds)."""
    templates = make_templates(home / "templates", seed)
    counts: Counter[tuple[str, str]] = Counter()
    failures = []
    slowest_s = 0.0
    for number in range(logs) if only is None else [only]:
        rnd = random.Random(f"{seed}/{number}")
        template = rnd.choice(templates)
        injuries = _draw(template, rnd)
        begun = time.perf_counter()
        case = Case(template, injuries, home / "case")
        case.run()
        slowest_s = max(slowest_s, time.perf_counter() - begun)
        kinds = "+".join(sorted({f"{i.kind} {i.path.suffix or i.path.name}" for i in injuries}))
        counts[kinds if len(injuries) == 1 else "several", case.verdict] += 1
        if case.problems:
            where = [f"{i.kind} {i.path}" for i in injuries]
            failures.append(f"{number}: {template.name} {where}: {case.problems[:4]}")
    return counts, failures, slowest_s


class Case:
    """One damaged directory on its way through two starts."""

    def __init__(self, template: Template, injuries: list[Injury], directory: Path) -> None:
        self._template = template
        self._directory = directory
        self._injuries = injuries
        self._possible = _possible(template, injuries)
        self.problems: list[str] = []
        self.verdict = "nothing lost"

    def run(self) -> None:
        """Damage, load, work, stop, load again."""
        shutil.rmtree(self._directory, ignore_errors=True)
        shutil.copytree(self._template.directory, self._directory)
        for injury in self._injuries:
            path = self._directory / injury.path
            if injury.content is None:
                path.unlink()
            else:
                path.write_bytes(injury.content)
        try:
            self._live_through()
        except Exception:  # any crash is a finding
            _, error, trace = sys.exc_info()
            frames = traceback.extract_tb(trace)[-5:]
            at = " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames)
            self.problems.append(f"{type(error).__name__}: {error} ({at})")

    def _live_through(self) -> None:
        after_first: dict[Key, int] = {}
        for start in (1, 2):
            manager = open_manager(self._directory, self._template.settings)
            try:
                manager.load(CLUSTER_ID, 0)
                log = manager.get_log(OFFSETS)
                if log is None:
                    self.problems.append("the log was not opened")
                    return
                log.offsets.cleaned_to(self._template.cleaned_end_offset)  # the cleaner's doing
                log.update_high_watermark(log.log_end_offset)
                broker = GroupBroker(lead=False, time=VirtualTime(NOW_MS + _MONTH_MS))
                broker.lead(DiskOffsetsLog(log))
                if start == 1:
                    self._examine(broker, log)
                    asyncio.run(self._work(broker))
                    after_first = state_of(broker)
                else:
                    gone = {
                        (key, value)
                        for key, value in after_first.items() - state_of(broker).items()
                        # What was hit may be believed today and doubted tomorrow.
                        if len(self._possible.get(key, {value})) == 1 or key[0] in _WORKING
                    }
                    if gone:
                        self.problems.append(f"gone after a restart: {sorted(gone)[:5]}")
            finally:
                manager.shutdown()

    def _examine(self, broker: GroupBroker, log: Log) -> None:
        found = state_of(broker)
        is_noted = not any(
            injury.path.suffix == ".snapshot" or injury.path.name == _RECOVERY_POINTS
            for injury in self._injuries
        )
        if self._template.is_clean and is_noted and log.log_end_offset != self._template.end_offset:
            self.problems.append(f"the log ends at {log.log_end_offset}")
        for key in found.keys() | self._possible.keys():
            allowed = self._possible.get(key, {None})
            if found.get(key) not in allowed:
                self.problems.append(f"{key} is {found.get(key)}, may be {allowed}")
        if found == _state(self._template):
            return
        self.verdict = "lost what was hit"
        was_cut = log.log_end_offset < self._template.end_offset
        if was_cut:
            self.verdict = "cut"
            return
        for _ in broker.groups.offsets.expire():
            pass
        if state_of(broker) != found:
            gone = sorted(set(found.items()) - set(state_of(broker).items()))
            self.problems.append(f"expired although the load could not see all: {gone[:5]}")

    async def _work(self, broker: GroupBroker) -> None:
        """A group of consumers that was there, and one that was not, go on."""
        for group_id in _WORKING:
            joined = broker.join(group_id, version=3)
            if not isinstance(joined, JoinGroupResponse):  # the log knows a member that is gone
                broker.time.advance(_SESSION_MS)
                joined = await joined
            assignments = {joined.member_id: b"all"}
            broker.sync(joined.member_id, joined.generation_id, group_id, assignments=assignments)
            heartbeat = HeartbeatRequest(
                group_id=group_id, generation_id=joined.generation_id, member_id=joined.member_id
            )
            value = CommittedOffset(offset=4242, commit_timestamp_ms=NOW_MS + _MONTH_MS)
            committer = Committer(group_id, joined.member_id, None, joined.generation_id)
            partition = TopicPartition("t", 0)
            answers = [
                broker.groups.heartbeat(heartbeat),
                *broker.groups.offsets.commit(committer, [(partition, value)]),
                broker.groups.offsets.fetch(group_id, [partition], True)[0][1].offset,
            ]
            if answers != [ErrorCode.NONE, ErrorCode.NONE, 4242]:
                self.problems.append(f"group {group_id} cannot work: {answers}")


def state_of(broker: GroupBroker) -> dict[Key, int]:
    """Committed offsets and generations of all groups."""
    found: dict[Key, int] = {}
    for coordinated in broker.groups.store:
        group = coordinated.group
        for partition, value in group.offsets.committed.items():
            found[group.group_id, partition.partition] = value.offset
        if group.generation_id:
            found[group.group_id, -1] = group.generation_id
    return found


def _state(template: Template) -> Rows:
    return {
        key: next(iter(values))
        for key, values in _possible(template, []).items()
        if values != {None}
    }


def _possible(template: Template, injuries: list[Injury]) -> dict[Key, set[int | None]]:
    """The values that each key may have: of the last batch that was not hit, or of hit ones behind
    it that may be seen all the same.
    """
    hit = _hit(template, injuries)
    is_whole = template.is_clean and not any(
        injury.path.name == _RECOVERY_POINTS or injury.kind == "torn" for injury in injuries
    )
    others = {injury.path.suffix for injury in injuries if not injury.is_log}
    # Where markers are damaged, these tell how transactions ended; a start that cuts does not.
    knows_ends = is_whole and not (hit and others & {".snapshot", *_INDEXES})
    possible: dict[Key, set[int | None]] = {}
    for last_offset, said in template.said.items():
        if said.is_aborted and knows_ends:
            continue
        is_sure = last_offset not in hit
        if said.ends_at is not None and not knows_ends:
            is_sure = is_sure and not said.is_aborted and said.ends_at not in hit
        if said.is_aborted and not hit:
            continue
        for key, value in said.rows.items():
            before = possible.get(key, {None})
            possible[key] = {value} if is_sure else before | {value}
    return possible


def _hit(template: Template, injuries: list[Injury]) -> set[int]:
    """The last offsets of batches that were hit, and of those that go with them."""
    hit: set[int] = set()
    for injury in (each for each in injuries if each.is_log):
        before, after = (template.directory / injury.path).read_bytes(), injury.content or b""
        ranges = batch_ranges(template.directory / injury.path)
        damaged = [at for at, (start, end, _) in enumerate(ranges)
                   if before[start:end] != after[start:end]]  # fmt: skip
        hit.update(ranges[at][2] for at in damaged)
        unsized = [at for at in damaged
                   if before[ranges[at][0]:][:_HEAD] != after[ranges[at][0]:][:_HEAD]]  # fmt: skip
        if unsized:
            # Nothing leads to what lies between two batches whose heads are damaged. And where
            # offsets have gaps, a moved batch and its neighbours may contradict each other with
            # equal right.
            hit.update(last for _, _, last in ranges[unsized[0] : unsized[-1]])
            if template.name.startswith("compacted"):
                hit.update(last for at in unsized for _, _, last in ranges[max(0, at - 1) : at + 2])
    if hit and not template.is_clean:
        # The start recovers it: it cuts the log at the damage.
        hit.update(last_offset for last_offset in template.said if last_offset >= min(hit))
    return hit


# ---- damage


def _draw(template: Template, rnd: random.Random) -> list[Injury]:
    """One to three injuries, of different files."""
    paths = [
        path.relative_to(template.directory)
        for path in sorted(template.directory.rglob("*"))
        if path.is_file()
        and path.stat().st_size
        and path.name not in _LEFT_ALONE
        and path.suffix != ".deleted"
    ]
    logs = [path for path in paths if path.suffix == ".log"]
    chosen = {
        rnd.choice(logs if rnd.random() < 0.7 else paths)
        for _ in range(rnd.choice((1, 1, 1, 2, 3)))
    }
    return [_injure(template, path, rnd) for path in sorted(chosen)]


def _injure(template: Template, path: Path, rnd: random.Random) -> Injury:
    data = bytearray((template.directory / path).read_bytes())
    used = max(1, len(data.rstrip(b"\0")))
    kind = rnd.choice(("flip", "flip", "torn", "zeros", "noise", "removed"))
    if kind == "removed" and path.suffix not in (".index", ".timeindex", ".snapshot"):
        kind = "flip"
    at = rnd.randrange(used)
    if kind == "flip":
        for _ in range(rnd.choice((1, 1, 2, 5))):
            data[rnd.randrange(used)] ^= 1 << rnd.randrange(8)
    elif kind == "torn":
        if path.suffix == ".log" and rnd.random() < 0.5:  # at a batch: nothing looks cut
            at = rnd.choice(batch_ranges(template.directory / path))[0]
        del data[at:]
    elif kind == "zeros":
        start = at // _PAGE * _PAGE
        size = min(rnd.choice((1, 2, 8)) * _PAGE, len(data) - start)
        data[start : start + size] = bytes(size)
    elif kind == "noise":
        size = min(rnd.choice((4, 60, 700)), len(data) - at)
        data[at : at + size] = rnd.randbytes(size)
    return Injury(path, kind, None if kind == "removed" else bytes(data))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
