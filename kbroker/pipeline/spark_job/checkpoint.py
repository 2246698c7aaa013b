"""The checkpoint directory of a job: Spark's own logs of offsets and commits, and beside them
`kbroker-job.json`, which names the job it belongs to.

Law: the file is written whole, by rename, before the first batch. The offsets of a batch are those
that Spark wrote down before the batch began, never counted from rows: a batch that is repeated
after a crash must read the same records.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol
from uuid import uuid4

from kbroker.errors import Trouble
from kbroker.log.disk.checkpoint import write_atomically
from kbroker.log.disk.file_system import RealFileSystem, StorageError
from kbroker.model import TopicPartition
from kbroker.pipeline.errors import ExitCode, PipelineError
from kbroker.pipeline.spark_job.offsets import (
    OffsetRange,
    Offsets,
    format_offsets,
    parse_offsets,
    ranges_between,
)

JOB_FILE = "kbroker-job.json"
LAYOUT_VERSION = 1
_LOCK_FILE = ".kbroker-lock"
_OFFSETS_LOG, _COMMITS_LOG = "offsets", "commits"
_SOURCE_START = "sources/0"  # what the only source notes of itself
_LOG_VERSION = "v1"  # first line of every file of Spark's logs


@dataclass(frozen=True, slots=True, kw_only=True)
class JobIdentity:
    """The job that owns a checkpoint. `target` is empty for a job that writes nowhere."""

    kind: str  # archive, audit, ...
    name: str  # of the query
    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """The content of `kbroker-job.json`."""

    identity: JobIdentity
    job_id: str  # a UUID, made once
    start: Offsets  # where the first batch begins
    topic_ids: Mapping[str, str] = field(default_factory=dict)  # of topics seen so far, if known


class Look(Protocol):
    """The questions that a checkpoint asks a source."""

    def earliest(self) -> Offsets:
        """The first offset of each partition."""
        ...

    def topic_ids(self) -> Mapping[str, str]:
        """Ids of topics by name; topics without one are missing."""
        ...


class PlacesElsewhere:
    """The answers for a job that keeps its progress outside of the checkpoint."""

    def earliest(self) -> Offsets:
        return {}

    def topic_ids(self) -> Mapping[str, str]:
        return {}


class Checkpoint:
    """A directory on a disk that the driver sees."""

    def __init__(self, directory: str | Path) -> None:
        if "://" in str(directory):
            raise PipelineError(
                f"the checkpoint {directory} is an address: give a directory of a disk, own or "
                "mounted",
                ExitCode.USAGE,
            )
        self.directory = Path(directory)

    def read(self, identity: JobIdentity) -> JobRecord | None:
        """Return the job's record, None in a new directory; refuses another job's."""
        path = self.directory / JOB_FILE
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            self._refuse_foreign_files()
            return None
        except OSError as error:
            raise self._not_usable(error) from error
        record = _parse(text, path)
        _check_same(record.identity, identity, self.directory)
        return record

    def claim(self, identity: JobIdentity, source: Look) -> JobRecord:
        """Return the job's record, written now if it or one of its topics is new.

        As long as Spark has no start of its own, the source is asked for one: nothing depends on it
        yet, and partitions may come and go. A topic that was created again since is refused.
        """
        record = self.read(identity)
        topic_ids = dict(source.topic_ids())
        if record is None or not self.has_start():
            job_id = record.job_id if record is not None else str(uuid4())
            start = source.earliest()
            new = JobRecord(identity=identity, job_id=job_id, start=start, topic_ids=topic_ids)
        else:
            return self.remember_topics(record, topic_ids)
        if new != record:
            self._store(new)
        return new

    def remember_topics(self, record: JobRecord, topic_ids: Mapping[str, str]) -> JobRecord:
        """Add new topics to the record, and write it; refuses one that was created again since."""
        self._check_topics(record, topic_ids)
        new = replace(record, topic_ids={**topic_ids, **record.topic_ids})
        if new != record:
            self._store(new)
        return new

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from running here; raises PipelineError if one does.

        A new directory in which nothing was written is removed at the end.
        """
        is_new = not self.directory.exists()
        with self._locked() as file:
            try:
                yield
            finally:
                if is_new:
                    self._remove_if_unused(file)

    def _locked(self) -> IO[str]:
        while True:
            file = self._lock_file()
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                file.close()
                raise PipelineError(
                    f"another process runs on the checkpoint {self.directory}: wait until it has "
                    "ended, or give this job its own --checkpoint",
                    trouble=Trouble.CHECKPOINT,
                ) from error
            if os.fstat(file.fileno()).st_nlink:
                return file
            file.close()  # its holder has just removed it: it keeps nobody out

    def _remove_if_unused(self, lock: IO[str]) -> None:
        with suppress(OSError):
            if os.listdir(self.directory) == [_LOCK_FILE]:
                os.unlink(lock.name)
                os.rmdir(self.directory)

    def _lock_file(self) -> IO[str]:
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            return (self.directory / _LOCK_FILE).open("w")
        except OSError as error:
            raise self._not_usable(error) from error

    def has_start(self) -> bool:
        """Return whether Spark has written down where its first batch begins: a batch was begun, or
        the source has kept a note, as Spark's Kafka source does before the first batch.
        """
        return self.last_batch() is not None or bool(self._numbers(_SOURCE_START))

    def last_batch(self) -> int | None:
        """Return the number of the newest batch that was begun, None if there is none."""
        return max(self._numbers(_OFFSETS_LOG), default=None)

    def last_commit(self) -> int | None:
        """Return the number of the newest batch that was finished, None if there is none."""
        return max(self._numbers(_COMMITS_LOG), default=None)

    def offsets(self, batch: int) -> dict[TopicPartition, int]:
        """Return the end offsets of a batch. Raises PipelineError if they cannot be read."""
        path = self.directory / _OFFSETS_LOG / str(batch)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            if len(lines) != 3 or lines[0] != _LOG_VERSION:
                raise ValueError("it lacks the three lines of a query with one source")
            return parse_offsets(lines[2])
        except OSError as error:
            raise PipelineError(
                f"the checkpoint {self.directory} has no offsets of batch {batch} "
                f"({error.strerror}): restore it from a copy, or begin with a new --checkpoint"
            ) from error
        except ValueError as error:
            raise PipelineError(
                f"{path} is damaged ({error}): restore the checkpoint from a copy, or begin with "
                "a new --checkpoint"
            ) from error

    def position(self, record: JobRecord) -> Offsets:
        """Return where the next batch begins: after the newest that was finished."""
        last = self.last_commit()
        return record.start if last is None else self.offsets(last)

    def planned(self, record: JobRecord) -> Offsets:
        """Return where the newest batch ends, finished or not. If it was not finished it is run
        again with the same end; the batch after it begins here.
        """
        last = self.last_batch()
        return record.start if last is None else self.offsets(last)

    def ranges(self, batch: int, record: JobRecord) -> dict[TopicPartition, OffsetRange]:
        """Return the offsets that a batch reads."""
        previous = record.start if batch == 0 else self.offsets(batch - 1)
        try:
            return ranges_between(previous, self.offsets(batch))
        except ValueError as error:
            raise PipelineError(
                f"in batch {batch} of the checkpoint {self.directory} {error}: the topic was "
                "deleted and created again; begin with a new --checkpoint"
            ) from error

    def _numbers(self, log: str) -> list[int]:
        try:
            names = os.listdir(self.directory / log)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._not_usable(error) from error
        return [int(name) for name in names if name.isdecimal()]

    def _check_topics(self, record: JobRecord, topic_ids: Mapping[str, str]) -> None:
        for topic, topic_id in sorted(topic_ids.items()):
            known = record.topic_ids.get(topic, topic_id)
            if known != topic_id:
                raise PipelineError(
                    f"topic {topic} was deleted and created again: it has the id {topic_id}, the "
                    f"checkpoint {self.directory} belongs to {known}; begin with a new "
                    f"--checkpoint",
                    trouble=Trouble.ARCHIVE,
                )

    def _store(self, record: JobRecord) -> None:
        try:
            self._write(record)
        except OSError as error:
            raise self._not_usable(error) from error

    def _not_usable(self, error: OSError) -> PipelineError:
        return PipelineError(
            f"cannot use {self.directory} as checkpoint: {error.strerror or error}"
        )

    def _refuse_foreign_files(self) -> None:
        try:
            names = sorted(name for name in os.listdir(self.directory) if not _is_own(name))
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._not_usable(error) from error
        if names:
            raise PipelineError(
                f"{self.directory} is not a checkpoint of kbroker and not empty (it has "
                f"{names[0]}): give an empty or a new directory as --checkpoint"
            )

    def _write(self, record: JobRecord) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        path = str(self.directory / JOB_FILE)
        try:
            write_atomically(RealFileSystem(), path, _format(record))
        except StorageError as error:
            raise OSError(error.errno, os.strerror(error.errno)) from error


def _is_own(name: str) -> bool:
    """Return whether a file is the lock, or the rest of a first write that was cut short."""
    return name[0] == "." or name == f"{JOB_FILE}.tmp"


def _format(record: JobRecord) -> str:
    content = {
        "layout_version": LAYOUT_VERSION,
        "kind": record.identity.kind,
        "job_id": record.job_id,
        "name": record.identity.name,
        "source": record.identity.source,
        "target": record.identity.target,
        "topic_ids": dict(sorted(record.topic_ids.items())),
        "start": json.loads(format_offsets(record.start)),
    }
    return json.dumps(content, indent=2) + "\n"


def _parse(text: str, path: Path) -> JobRecord:
    try:
        content: Any = json.loads(text)
        version = content["layout_version"]
        if version != LAYOUT_VERSION:
            raise PipelineError(
                f"{path} has layout version {version}, this kbroker knows {LAYOUT_VERSION}: "
                "use the kbroker that wrote it, or begin with a new --checkpoint"
            )
        words = {name: content[name] for name in ("kind", "name", "source", "target", "job_id")}
        if not all(isinstance(word, str) for word in words.values()):
            raise ValueError("a field is not text")
        job_id = words.pop("job_id")
        start = parse_offsets(json.dumps(content["start"]))
        topic_ids = {str(topic): str(known) for topic, known in content["topic_ids"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise PipelineError(
            f"{path} is damaged ({reason}): restore it from a copy, or begin with a new "
            "--checkpoint"
        ) from error
    identity = JobIdentity(**words)
    return JobRecord(identity=identity, job_id=job_id, start=start, topic_ids=topic_ids)


def _check_same(found: JobIdentity, wanted: JobIdentity, directory: Path) -> None:
    for what in ("kind", "name", "source", "target"):
        theirs, ours = getattr(found, what), getattr(wanted, what)
        if theirs != ours:
            label = "job" if what == "kind" else what
            raise PipelineError(
                f"the checkpoint {directory} belongs to another {label}: it has {theirs}, this "
                f"is {ours}; give that job its own --checkpoint",
                trouble=Trouble.CHECKPOINT,
            )
