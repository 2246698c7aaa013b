"""Archives of classes as Java keeps them in memory: a process that has one starts in half the
processor's time. They are made once for a Java and its jars, by a process that ends.

Java passes over an archive that does not fit, with a warning, which is kept off what tests read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def class_archive(folder: Path, name: str) -> Path:
    """Where the archive of that name lies, or belongs, for the Java on PATH."""
    java = Path(shutil.which("java") or "java").resolve()
    known_by = f"{java} {java.stat().st_mtime_ns}"
    return folder / f"{name}-{hashlib.sha256(known_by.encode()).hexdigest()[:12]}.jsa"


def options_for(archive: Path) -> list[str]:
    """Options of Java: use the archive, or make it at the end of the process; `keep` it then."""
    if archive.exists():
        return [*QUIET, f"-XX:SharedArchiveFile={archive}"]
    return [*QUIET, f"-XX:ArchiveClassesAtExit={_new(archive)}"]


def keep(archive: Path) -> None:
    """What a process with `options_for` has made is used from now on."""
    if _new(archive).exists():
        _new(archive).replace(archive)


def _new(archive: Path) -> Path:
    return archive.with_suffix(f".{os.getpid()}")  # other test processes may make one as well
