"""Java for processes that run some seconds, which mostly start: its quick compiler and its small
collector, and archives of classes as Java keeps them in memory, which halve the time of a start.
Archives are made once for a Java and its jars, by a process that ends.

Java passes over an archive that does not fit, with a warning, which is kept off what tests read.
"""

from __future__ import annotations

import hashlib
import shutil
import uuid
from pathlib import Path

SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


class ClassArchive:
    """The archive of that name in a folder, for the Java on PATH, as one process uses or makes it."""

    def __init__(self, folder: Path, name: str) -> None:
        java = Path(shutil.which("java") or "java").resolve()
        known_by = f"{java} {java.stat().st_mtime_ns}"
        stamp = hashlib.sha256(known_by.encode()).hexdigest()[:12]
        self.path = folder / f"{name}-{stamp}.jsa"
        self._made = self.path.with_suffix(f".{uuid.uuid4().hex}")  # others may make one as well

    def using(self) -> list[str]:
        """Options of Java for the archive that is there."""
        return [*_QUIET, f"-XX:SharedArchiveFile={self.path}"] if self.path.exists() else []

    def making(self) -> list[str]:
        """Options of Java to make the one that is missing, where the process ends by itself."""
        return [] if self.path.exists() else [*_QUIET, f"-XX:ArchiveClassesAtExit={self._made}"]

    def keep(self) -> None:
        """Use from now on what the process has made until its end."""
        if self._made.exists():
            self._made.replace(self.path)
