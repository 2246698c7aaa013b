"""The state of a job of rules on disk, step by step: what each step took in, keeps and writes out.

Below the checkpoint, `rules/steps/00000012/` has

step.json      what the step is, and which files of it and of earlier steps are still needed
rows-INPUT/    Parquet of the rows that it accepted
table-RULE/    Parquet of the table of a rule that keeps keys, as it is after the step
outputs/NN/    Parquet of records for topics
written        is there once the records are in their topics

Law: a step is there whole or not at all, as it is renamed into place when all of it is on the
device. What a step writes out is decided once, and is written from these files however often. It
has an id of its own, as a copy of the checkpoint makes other steps of the same numbers. `step.json`
has a checksum: one flipped bit in it would lose events or count them twice.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kbroker.pipeline.archiving.manifests.manifest import checksum_of
from kbroker.pipeline.errors import PipelineError
from kbroker.pipeline.rule_jobs.watermarks import PartitionTime

_STEP_FILE = "step.json"
_WRITTEN = "written"
_STAGING = ".staging"
OUTPUTS = "outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFiles:
    """Accepted rows of one input in a step; the bounds of their times hold all of them."""

    step: int
    rows: int
    min_us: int
    max_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesStep:
    """The content of `step.json`: everything that the next step has to know. Maps are by name."""

    number: int
    batch: int  # the newest batch in it or before it; -1: none
    outputs_id: str = ""  # of the newest step with records for topics, up to this one
    follows_id: str = ""  # of the one with records before that
    begun_us: int = 0  # when the first step was made
    watermarks: Mapping[str, int] = field(default_factory=dict)  # by input
    partitions: Mapping[str, Mapping[str, PartitionTime]] = field(default_factory=dict)
    rows: Mapping[str, tuple[RowFiles, ...]] = field(default_factory=dict)  # by input
    tables: Mapping[str, int] = field(default_factory=dict)  # rule -> step with its table
    shape: Mapping[str, str] = field(default_factory=dict)  # of the rules that made it
    ends: Mapping[str, int] = field(default_factory=dict)  # partition -> read up to this offset


BEGINNING = RulesStep(number=-1, batch=-1)


class StepJournal:
    """Owned by the thread of the batches. Raises PipelineError if the disk refuses."""

    def __init__(self, checkpoint: str | Path) -> None:
        self.directory = Path(checkpoint).absolute() / "rules" / "steps"

    def latest(self) -> RulesStep:
        """Return the newest step, or BEGINNING."""
        numbers = self._numbers()
        return self.read(max(numbers)) if numbers else BEGINNING

    def read(self, number: int) -> RulesStep:
        """Read one step; refuses one that is damaged."""
        path = self.path(number) / _STEP_FILE
        try:
            return _decoded(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise _refused(path, error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(
                f"{path} is damaged ({error}): restore the checkpoint from a copy, or begin with a "
                "new --checkpoint"
            ) from error

    def path(self, number: int) -> Path:
        return self.directory / f"{number:010}"

    def rows_path(self, name: str, number: int) -> Path:
        return self.path(number) / f"rows-{name}"

    def table_path(self, name: str, number: int) -> Path:
        return self.path(number) / f"table-{name}"

    def stage(self) -> Path:
        """Return an empty directory for the next step, without what an unfinished one left."""
        staging = self.directory / _STAGING
        try:
            shutil.rmtree(staging, ignore_errors=True)
            (staging / OUTPUTS).mkdir(parents=True)
        except OSError as error:
            raise _refused(staging, error) from error
        return staging

    def publish(self, step: RulesStep) -> None:
        """Make what is staged the step."""
        staging = self.directory / _STAGING
        try:
            (staging / _STEP_FILE).write_text(_encoded(step), encoding="utf-8")
            for folder, _, names in os.walk(staging, topdown=False):
                for name in names:
                    _sync(os.path.join(folder, name))
                _sync(folder)
            staging.rename(self.path(step.number))
            _sync(str(self.directory))
        except OSError as error:
            raise _refused(staging, error) from error

    def is_written(self, number: int) -> bool:
        """Return whether the records of a step are noted to be in their topics."""
        return number < 0 or (self.path(number) / _WRITTEN).exists()

    def note_written(self, number: int) -> None:
        """Note that the records of a step are in their topics."""
        path = self.path(number) / _WRITTEN
        try:
            path.touch()
            _sync(str(path))
            _sync(str(path.parent))
        except OSError as error:
            raise _refused(path, error) from error

    def prune(self, step: RulesStep) -> None:
        """Remove what a step that is written, and those after it, will not need."""
        needed = {
            self.rows_path(name, files.step) for name, found in step.rows.items() for files in found
        } | {self.table_path(name, number) for name, number in step.tables.items()}
        try:
            for number in self._numbers():
                if number <= step.number:
                    self._prune_step(number, needed, is_old=number < step.number)
        except OSError as error:
            raise _refused(self.directory, error) from error

    def _prune_step(self, number: int, needed: set[Path], *, is_old: bool) -> None:
        kept = 0
        for entry in sorted(self.path(number).iterdir()):
            if not entry.is_dir():
                continue
            if entry in needed:
                kept += 1
            else:
                shutil.rmtree(entry)
        if is_old and not kept:
            shutil.rmtree(self.path(number))

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _refused(self.directory, error) from error
        return sorted(int(name) for name in names if name.isdecimal())


def _encoded(step: RulesStep) -> str:
    content = asdict(step)
    return json.dumps({"checksum": _checksum(content), "step": content}) + "\n"


def _decoded(text: str) -> RulesStep:
    sealed = json.loads(text)
    content = sealed["step"]
    if sealed["checksum"] != _checksum(content):
        raise ValueError(f"its content does not have the checksum {sealed['checksum']}")
    return _parsed(content)


def _checksum(content: Any) -> str:
    return checksum_of(json.dumps(content).encode())


def _parsed(content: Any) -> RulesStep:
    return RulesStep(
        number=content["number"],
        outputs_id=content["outputs_id"],
        follows_id=content["follows_id"],
        batch=content["batch"],
        begun_us=content["begun_us"],
        watermarks=content["watermarks"],
        partitions={
            name: {partition: PartitionTime(**time) for partition, time in found.items()}
            for name, found in content["partitions"].items()
        },
        rows={
            name: tuple(RowFiles(**each) for each in found)
            for name, found in content["rows"].items()
        },
        tables=content["tables"],
        shape=content["shape"],
        ends=content["ends"],
    )


def _refused(path: Path, error: OSError) -> PipelineError:
    return PipelineError(
        f"cannot keep the state of the rules in {path}: {error.strerror or error}; the same "
        "command goes on where it was"
    )


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
