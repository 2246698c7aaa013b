"""What Spark 4.0 leaves in the working directory: `artifacts/`, with a folder for each of its
processes, wherever its settings have the other temporary files. No job has artifacts.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

_NAME = "artifacts"


def has_artifacts() -> bool:
    """Whether such a directory is there already, which may be somebody's own."""
    return Path(_NAME).exists()


def artifacts_of(spark: Any) -> Path | None:
    """The folder of the session's process; None with a Spark that keeps it elsewhere."""
    try:
        package = spark._jvm.org.apache.spark.sql.artifact
        manager = getattr(getattr(package, "ArtifactManager$"), "MODULE$")  # Scala's object
        folder = Path(manager.artifactRootDirectory().toString())
    except Exception:  # as far as Spark's inside goes, it may be without
        return None
    return folder if folder.parent.resolve() == Path(_NAME).resolve() else None


def remove_artifacts(folder: Path, *, keeps_parent: bool) -> None:
    """Remove a folder that is not used any more, and `artifacts/` if nothing else is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    if not keeps_parent:
        with suppress(OSError):  # another job has a folder there
            folder.parent.rmdir()
